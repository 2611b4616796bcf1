#!/bin/sh
# Import, doctor and unit tiers on each Airflow that the provider supports, and on the oldest and newest
# Python, in environments of their own below .matrix: made with the newest packages that fit, and
# kept until `make clean`. Arguments choose: scripts/test_matrix.sh 3.1:3.11 3.3:3.13
set -u
cd "$(dirname "$0")/.."
uv=$(scripts/find_uv.sh .venv/bin/python) || exit 1
unset UV_PROJECT_ENVIRONMENT VIRTUAL_ENV
export UV_PYTHON_DOWNLOADS=never
[ $# -gt 0 ] || set -- 3.1:3.11 3.2:3.11 3.3:3.10 3.3:3.13

# What the tests import; the tools for formatting and types stay out, and browsers.
tools="pytest hypothesis requests psutil apache-airflow-providers-cncf-kubernetes moto[s3] flask flask-cors confluent-kafka"
summary=""
failed=0
for pair do
    airflow=${pair%:*} python=${pair#*:}
    name="Airflow $airflow, Python $python"
    folder=.matrix/airflow-$airflow-python-$python
    if ! "$uv" python find "$python" >/dev/null 2>&1; then
        summary="$summary$name: NOT run, there is no Python $python here\n"
        continue
    fi
    mkdir -p .matrix
    # pyspark-client, which the Spark provider drags in, writes the same files as pyspark.
    printf 'pyspark==4.2.0\npyspark-client==4.2.0\n' >.matrix/constraints.txt
    echo "== $name"
    # shellcheck disable=SC2086 # several words are meant
    { [ -x "$folder/bin/python" ] || "$uv" venv --quiet --python "$python" "$folder"; } &&
        "$uv" pip install --quiet --python "$folder/bin/python" --constraint .matrix/constraints.txt \
            --editable '.[engine,s3]' "apache-airflow==$airflow.*" \
            'apache-airflow-providers-apache-spark>=6.3' $tools &&
        "$folder/bin/python" -m tests.matrix &&
        "$folder/bin/continuous" doctor &&
        # Old versions warn of themselves: those warnings are not ours.
        "$folder/bin/python" -m pytest -q -p no:cacheprovider -o filterwarnings=default \
            -m "not airflow and not spark and not system" \
            tests/airflow --ignore tests/airflow/live tests/unit/test_cli.py tests/unit/test_lease.py tests/unit/test_retention.py \
            tests/unit/test_spec.py
    if [ $? -eq 0 ]; then
        summary="$summary$name: passed\n"
    else
        summary="$summary$name: FAILED\n" failed=1
    fi
done
printf '\n%b' "$summary"
exit $failed
