# shellcheck shell=sh
# build.sh - sourced by the top-level scripts; builds the tree in a directory of its own.

# What the build prints goes to this file in the build directory.
BUILD_LOG=build.log

# build_step LOG COMMAND... - runs COMMAND into LOG; when it fails, shows how LOG ends.
build_step() {
    log=$1
    shift
    "$@" >>"$log" 2>&1 </dev/null && return 0
    tail -n 40 "$log" >&2
    echo "failed: $*" >&2
    echo "the whole output is in $log" >&2
    return 1
}

configure_in() { (cd "$1" && "$2/configure"); }

# build_tree DIRECTORY [MAKE-ARGUMENT...] - from the source in the current directory: configure if need be, then
# make. Returns 1, with the error on stderr, when that fails.
build_tree() {
    mkdir -p "$1"
    build=$(cd "$1" && pwd)
    shift
    log=$build/$BUILD_LOG
    : >"$log"
    if [ ! -e configure ]; then # an outdated one is make's business
        build_step "$log" ./autogen.sh || return 1
    fi
    if [ ! -e "$build/config.status" ]; then
        build_step "$log" configure_in "$build" "$PWD" || return 1
    fi
    build_step "$log" make -C "$build" -j"$(nproc)" "$@"
}
