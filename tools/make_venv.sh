#!/usr/bin/env bash
# Builds the virtual environment $1 (if it isn't there) and installs the pinned requirements $2 and this project.
set -eu
venv=$1
requirements=$2

say() { printf '%s\n' "$*" >&2; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.12 python3.11 python3.10; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    say "asc_sched needs Python 3.10, 3.11 or 3.12; found: $(python3 --version 2>&1 || true)."
    say "Install one (apt-get install python3), or name it: make PYTHON=/path/to/python3.11 demo"
    exit 1
}

if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -c 'import pip' 2>/dev/null; then
    python=$(find_python)
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        package="python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
            say "installing $package"
            apt-get update -qq && apt-get install -y -qq "$package" >/dev/null
        else
            say "Python has no venv module here. Install it first: sudo apt-get install $package"
            exit 1
        fi
    fi
    say "building $venv with $("$python" --version)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi
say "installing $requirements (the first time takes a few minutes)"
"$venv/bin/python" -m pip install --quiet --requirement "$requirements"
"$venv/bin/python" -m pip install --quiet --no-deps --no-build-isolation --editable .
