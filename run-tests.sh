#!/bin/sh
# run-tests.sh [--long] - installs what is missing, builds in build/ (or $BUILD_DIR), runs every
# test, four more at a time than there are processors: many wait for something most of their time.
#
# With --long, tests that have a long form take it (make check-long): an hour instead of minutes.
# The last line is "N passed, N failed", with ", N skipped" if there were any. Exit status 0 only if
# tests ran and none failed.
set -eu
cd "$(dirname "$0")"
. scripts/packages.sh
. scripts/build.sh

build_dir=${BUILD_DIR:-build}
case ${1:-} in
'') target=check ;;
--long) target=check-long ;;
*)
    echo 'usage: run-tests.sh [--long]' >&2
    exit 2
    ;;
esac

# Ends the run before any test could: nothing passed, and that is a failure.
give_up() {
    echo "0 passed, 0 failed: $1"
    exit 1
}

# The results of an earlier run must not be counted.
forget_results() { find "$build_dir" -name '*.trs' -exec rm -f {} +; }

# shellcheck disable=SC2086 # lists of names
{
    packages_install run-tests.sh $BUILD_PACKAGES || exit 1
    packages_install run-tests.sh $PROGRAM_PACKAGES ||
        echo 'run-tests.sh: going on without these' >&2
    [ "$target" = check ] || packages_install run-tests.sh $LONG_PACKAGES $SLURM_PACKAGES ||
        echo 'run-tests.sh: going on without these' >&2
    packages_install run-tests.sh $ALLOCATOR_PACKAGES ||
        echo 'run-tests.sh: going on without these' >&2
    packages_install run-tests.sh $PROBE_PACKAGES || echo 'run-tests.sh: going on without it' >&2
    packages_install run-tests.sh $CHART_PACKAGES || echo 'run-tests.sh: going on without it' >&2
}
build_tree run-tests.sh "$build_dir" test-programs || give_up 'the build failed, no test ran'
forget_results
check_status=0
make -C "$build_dir" -j"$(($(nproc) + 4))" "$target" </dev/null || check_status=$?
exec ruby scripts/count-tests.rb "$build_dir" "$check_status"
