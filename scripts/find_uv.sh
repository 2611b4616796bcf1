#!/bin/sh
# Prints the path of uv; gets it into .uv with the interpreter "$1" where it is missing.
set -eu
cd "$(dirname "$0")/.."

for candidate in uv .uv/bin/uv; do
    case $("$candidate" --version 2>/dev/null) in
        "uv 0."[0-4].*) ;; # too old for dependency groups
        "uv "*) echo "$candidate" && exit ;;
    esac
done
echo "setup: getting uv into .uv" >&2
# A --target folder also works where pip may not touch the system's Python (PEP 668).
export PIP_USER=0 PIP_ROOT_USER_ACTION=ignore
if ! "$1" -m pip install --quiet --target .uv --upgrade uv >&2; then
    "$1" -m venv .uv >&2 && .uv/bin/python -m pip install --quiet uv >&2 || {
        echo "setup: uv is missing, and $1 has no working pip to get it with." \
            "Install pip (Debian: apt install python3-pip), or uv, and run this again." >&2
        exit 1
    }
fi
echo .uv/bin/uv
