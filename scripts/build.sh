# shellcheck shell=sh
# build.sh - sourced by the top-level scripts; builds the tree in a directory of its own.

# What the build prints goes to this file in the build directory.
BUILD_LOG=build.log

# watch_log LOG - shows how LOG ends, again and again, while this shell lives.
watch_log() {
    while sleep 1 && kill -0 $$ 2>/dev/null; do
        printf '\r\033[K%.100s' "$(tail -n 1 "$1")" >&2
    done
}

# build_step LOG COMMAND... - runs COMMAND into LOG; when it fails, shows how LOG ends. On a
# terminal, shows how far it is.
build_step() {
    log=$1
    shift
    watcher=
    if [ -t 2 ]; then
        watch_log "$log" &
        watcher=$!
    fi
    build_status=0
    "$@" >>"$log" 2>&1 </dev/null || build_status=$?
    if [ -n "$watcher" ]; then
        kill "$watcher"
        wait "$watcher" 2>/dev/null || true
        printf '\r\033[K' >&2
    fi
    [ "$build_status" != 0 ] || return 0
    tail -n 40 "$log" >&2
    echo "failed: $*" >&2
    echo "the whole output is in $log" >&2
    return 1
}

configure_in() { (cd "$1" && "$2/configure"); }

# build_tree NAME DIRECTORY [MAKE-ARGUMENT...] - from the source in the current directory: configure
# if need be, then make. NAME, who asks for it, stands before what is said. Returns 1, with the
# error on stderr, when that fails.
build_tree() {
    name=$1
    mkdir -p "$2"
    build=$(cd "$2" && pwd)
    shift 2
    log=$build/$BUILD_LOG
    : >"$log"
    if [ ! -e configure ]; then # an outdated one is make's business
        echo "$name: making the configure script" >&2
        build_step "$log" ./autogen.sh || return 1
    fi
    if [ ! -e "$build/config.status" ]; then
        echo "$name: configuring in $build" >&2
        build_step "$log" configure_in "$build" "$PWD" || return 1
    fi
    if [ -e "$build/bin/malloctape" ]; then
        echo "$name: building in $build" >&2
    else
        echo "$name: building in $build: fetches the source of gperftools, and compiles it and" \
            "malloctape; a minute or two" >&2
    fi
    build_step "$log" make -C "$build" -j"$(nproc)" "$@"
}
