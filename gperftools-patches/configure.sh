#!/bin/sh
# Makes config.h and tcmalloc.h in a gperftools source tree, as upstream's configure would.
#
#   configure.sh DIRECTORY [CONFIGURE-ARGUMENT...]
#
# Nothing else of upstream's build is wanted, so no makefile is made.
set -eu

directory=$1
shift
cd "$directory"

# The compiler comes as an argument; flags meant for our own build are none of upstream's business.
unset CFLAGS CXXFLAGS CPPFLAGS LDFLAGS LIBS CONFIG_SITE MAKEFLAGS MFLAGS || :

run() { # run COMMAND... - silent; on failure the end of its output
    "$@" >malloctape.log 2>&1 || {
        tail -n 20 malloctape.log >&2
        echo "configure.sh: gperftools: $1 failed" >&2
        exit 1
    }
}

# Release archives bring configure with them, the distribution's do not.
[ -f configure ] || run autoreconf --install
run ./configure --enable-minimal --no-create "$@"
run ./config.status src/config.h src/gperftools/tcmalloc.h
