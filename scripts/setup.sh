#!/bin/sh
# Makes .venv from uv.lock, with whatever is missing on this machine; touches nothing outside the
# project's folder. Does nothing when nothing has changed. PYTHON=... chooses the interpreter.
set -eu
cd "$(dirname "$0")/.."

fail() {
    echo "setup: $*" >&2
    exit 1
}

find_python() {
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.10}; do
        "$candidate" -c 'import sys
sys.exit(not (3, 10) <= sys.version_info < (3, 14))' 2>/dev/null && "$candidate" -c 'import sys; print(sys.executable)' && return
    done
    fail "Python 3.10 to 3.13 is needed, and ${PYTHON:-python3} is not one." \
        "Install one, or name it: make install PYTHON=/path/to/python3.12"
}

# Whether "$1" is the command of Java 17 or newer. Old versions call themselves 1.8.
is_java_17() {
    version=$("$1" -version 2>&1 | sed -n 's/^.* version "\([0-9]*\).*/\1/p' | head -n 1)
    [ "${version:-0}" -ge 17 ]
}

python=$(find_python) || exit 1
extras="--extra airflow --extra engine --extra spark-submit"
is_java_17 "${JAVA_HOME:+$JAVA_HOME/bin/}java" || is_java_17 java || extras="$extras --extra java"

stamp=.venv/.setup-stamp
state=$(cat uv.lock pyproject.toml scripts/setup.sh | cksum; echo "$python $extras")
if [ -x .venv/bin/python ] && [ "$(cat "$stamp" 2>/dev/null)" = "$state" ]; then
    exit 0
fi

uv=$(scripts/find_uv.sh "$python") || exit 1
unset UV_PROJECT_ENVIRONMENT VIRTUAL_ENV
export UV_PYTHON_DOWNLOADS=never
echo "setup: installing into .venv (the first time takes a few minutes)" >&2
# shellcheck disable=SC2086 # several words are meant
"$uv" sync --frozen --quiet --python "$python" $extras ||
    fail "uv could not make .venv from uv.lock; the reason is above."
# Spark's JVM, which most tests and every query start, then needs half the work for it.
.venv/bin/python -m engine.commands.write_class_archive ||
    echo "setup: each start of Spark takes a few seconds more" >&2
echo "$state" >"$stamp"
