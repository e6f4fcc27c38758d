#!/bin/sh
# Makes ./configure from configure.ac: needed once after a git checkout, never in a release archive.
set -eu
cd "$(dirname "$0")"

missing=
need() { # need COMMAND PACKAGE
    command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
need autoconf autoconf
need automake automake
need pkg-config pkg-config
if [ -n "$missing" ]; then
    echo "autogen.sh: missing:$missing (apt-get install$missing)" >&2
    exit 1
fi

mkdir -p build-aux
autoreconf --install --force --warnings=all
echo "autogen.sh: done; now run ./configure && make"
