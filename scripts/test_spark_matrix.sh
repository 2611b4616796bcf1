#!/bin/sh
# The tests on a real Spark, the ends of types, and random trees of expressions on the releases of
# Spark beside that of uv.lock, half an hour each: in environments of their own below .matrix, made
# with the newest packages that fit and kept until `make clean`. Arguments choose:
# scripts/test_spark_matrix.sh 4.1. TREES and SEED say which trees. What was compared is added to
# tests/parity/releases.json.
set -u
cd "$(dirname "$0")/.."
uv=$(scripts/find_uv.sh .venv/bin/python) || exit 1
unset UV_PROJECT_ENVIRONMENT VIRTUAL_ENV
export UV_PYTHON_DOWNLOADS=never
[ $# -gt 0 ] || set -- 4.1 4.3

# What the tests import, and what expressions need; the tools for formatting and types stay out.
tools="pytest pytest-xdist hypothesis requests psutil"
extras=engine,tls,sketches,registry,kafka,prometheus
summary=""
failed=0
for release do
    folder=.matrix/pyspark-$release
    mkdir -p .matrix
    echo "== Spark $release"
    # shellcheck disable=SC2086 # several words are meant
    { [ -x "$folder/bin/python" ] || "$uv" venv --quiet --python .venv/bin/python "$folder"; } &&
        "$uv" pip install --quiet --python "$folder/bin/python" --editable ".[$extras]" \
            "pyspark==$release.*" $tools &&
        # Old versions warn of themselves: those warnings are not ours.
        "$folder/bin/python" -m pytest -q -p no:cacheprovider -o filterwarnings=default \
            -n 2 --dist loadfile tests/spark tests/parity/test_contracts.py \
            tests/parity/test_between_releases.py tests/parity/test_edges_of_*.py &&
        "$folder/bin/python" -m tests.parity.invented \
            --trees "${TREES:-5000}" --seed "${SEED:-1}" --record
    if [ $? -eq 0 ]; then
        summary="${summary}Spark $release: passed\n"
    else
        summary="${summary}Spark $release: FAILED\n" failed=1
    fi
done
printf '\n%b' "$summary"
exit $failed
