#!/bin/bash
# run-demo.sh - from nothing to a comparison of allocators on a real program.
#
#   ./run-demo.sh                            the sqlite3 shell: 400 000 rows, an index, queries
#   ./run-demo.sh -- COMMAND [ARGUMENT...]   your own program, until it ends or until Ctrl-C
#
# Your program is recorded, and so is every program that it starts; the process that called its
# allocator most often is compared.
#
# Installs what is missing, builds in build/ (or $BUILD_DIR), records the program under the tracing
# allocator, puts its calls in one order, replays them under several allocators and prints one
# table. Everything it made is left in demo-out/ (or $DEMO_OUT): the trace, the reports, and
# commands.sh, the very commands that it ran.
#
# Exit status 0 only if recording, ordering and every replay agree on the calls, kind by kind, and
# on the objects alive at the end.

set -euo pipefail

caller_dir=$PWD
top=$(cd "$(dirname "$0")" && pwd)
cd "$top"
# shellcheck source=scripts/packages.sh
. scripts/packages.sh
# shellcheck source=scripts/build.sh
. scripts/build.sh
build=$(realpath -m "${BUILD_DIR:-build}")
out=$(realpath -m "${DEMO_OUT:-demo-out}")

# The comment at the head of this file.
usage() { sed -n '3,/^$/{s/^#//;s/^ //;p}' "$top/run-demo.sh"; }

say() { echo "run-demo.sh: $*" >&2; }

die() {
    say "$*"
    exit 1
}

# --- what is needed -------------------------------------------------------------------------------

install_needed() {
    local demo_packages=''
    [ $# -gt 0 ] || demo_packages=sqlite3:sqlite3
    # shellcheck disable=SC2086 # lists of names
    packages_install run-demo.sh $BUILD_PACKAGES $demo_packages
}

# What is good to have: more allocators to compare, and charts.
install_wanted() {
    local package
    for package in $PROBE_PACKAGES $ALLOCATOR_PACKAGES $CHART_PACKAGES; do
        packages_install run-demo.sh "$package" || say "going on without $package"
    done
}

run() {
    install_needed "$@" || exit 1
    install_wanted
    build_tree run-demo.sh "$build" || die 'the build failed'
    cd "$caller_dir"
    exec "$top/scripts/demo.sh" "$build" "$out" "$@"
}

case ${1:-} in
    '') run ;;
    -h | --help) usage ;;
    --)
        shift
        [ $# -gt 0 ] || die 'nothing to record after --'
        program=$(cd "$caller_dir" && type -P "$1") || die "$1: not found, or not a program"
        shift
        run "$program" "$@"
        ;;
    *)
        usage >&2
        exit 2
        ;;
esac
