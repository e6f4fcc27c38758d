#!/bin/bash
# shellcheck disable=SC2016,SC2034 # $out, $bin and $lib stand unexpanded in the commands of commands.sh
# run-demo.sh - from nothing to a comparison of allocators on a real program.
#
#   ./run-demo.sh                            the sqlite3 shell: 400 000 rows, an index, queries
#   ./run-demo.sh -- COMMAND [ARGUMENT...]   your own program
#
# Your program itself is recorded, up to its end, not what it starts.
#
# Installs what is missing, builds in build/ (or $BUILD_DIR), records the program under the tracing allocator,
# puts its calls in one order, replays them under several allocators and prints one table. Everything it made
# is left in demo-out/ (or $DEMO_OUT): the trace, the reports, and commands.sh, the very commands that it ran.
#
# Exit status 0 only if recording, ordering and every replay agree on the calls, kind by kind, and on the
# objects alive at the end.

set -euo pipefail

# shellcheck disable=SC2016 # $out, $bin and $lib stand unexpanded in the commands of commands.sh

caller_dir=$PWD
top=$(cd "$(dirname "$0")" && pwd)
cd "$top"
# shellcheck source=scripts/packages.sh
. scripts/packages.sh
# shellcheck source=scripts/build.sh
. scripts/build.sh
build=$(realpath -m "${BUILD_DIR:-build}")
out=$(realpath -m "${DEMO_OUT:-demo-out}")
bin=$build/bin
lib=$build/lib

# The comment at the head of this file.
usage() { sed -n '3,/^$/{s/^#//;s/^ //;p}' "$top/run-demo.sh"; }

say() { echo "run-demo.sh: $*" >&2; }

die() {
    say "$*"
    exit 1
}

# A word as the shell would have to read it.
quoted() { printf "'%s'" "${1//\'/\'\\\'\'}"; }

# step COMMENT COMMAND - notes COMMAND in commands.sh and runs it. $bin, $lib and $out may stand in it.
step() {
    printf '\n# %s\n%s\n' "$1" "$2" >>"$out/commands.sh"
    eval "$2"
}

# quiet_step COMMENT COMMAND - the same; what COMMAND prints goes to log.txt, and is shown if it fails. The status
# in $cut_short_status is no failure.
quiet_step() {
    local log=$out/log.txt status
    echo "$1:" >>"$log"
    set +e # not "|| status=$?", where a failure inside would not end the subshell
    (set -e && step "$1" "$2") >>"$log" 2>&1
    status=$?
    set -e
    [ "$status" != 0 ] && [ "$status" != "${cut_short_status:-0}" ] || return 0
    tail -n 20 "$log" >&2
    die "failed with status $status: $1"
}

# --- what is needed -------------------------------------------------------------------------------------

install_needed() {
    local demo_packages=''
    [ $# -gt 0 ] || demo_packages=sqlite3:sqlite3
    # shellcheck disable=SC2086 # lists of names
    packages_install run-demo.sh $BUILD_PACKAGES $demo_packages
}

# What is good to have: more allocators to compare, and charts.
install_wanted() {
    local package
    for package in $ALLOCATOR_PACKAGES $CHART_PACKAGES; do
        packages_install run-demo.sh "$package" || say "going on without $package"
    done
}

# --- the program ----------------------------------------------------------------------------------------

# A deterministic database: the numbers look random and are not. Results go to standard output.
write_sql() {
    cat >"$out/demo.sql" <<'SQL'
CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT, city TEXT, born INTEGER, balance REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400000)
INSERT INTO people
SELECT i, printf('person %d of %d', i * 7919 % 400009, i), 'city ' || (i * 104729 % 5003),
       1920 + i * 31 % 100, (i * 1299709 % 1000003) / 100.0
FROM n;
CREATE INDEX people_by_city ON people(city, born);
SELECT count(*), sum(balance), max(name) FROM people;
SELECT city, count(*) AS inhabitants, avg(balance) FROM people GROUP BY city ORDER BY inhabitants DESC, city LIMIT 20;
SELECT born, group_concat(substr(name, -6)) FROM people WHERE city LIKE 'city 49%' GROUP BY born LIMIT 50;
SELECT a.name, b.name FROM people a JOIN people b ON a.city = b.city AND a.born = b.born AND a.id < b.id
ORDER BY a.name, b.name LIMIT 100;
UPDATE people SET name = upper(name) || ' ' || city WHERE id % 3 = 0;
SELECT name FROM people ORDER BY name DESC LIMIT 100;
DELETE FROM people WHERE born < 1970;
SELECT count(*), length(group_concat(name)) FROM people;
SQL
}

record() {
    local tracing='TCMALLOC_TRACE_OUTPUT="$out/raw.lz4" LD_PRELOAD="$lib/libtcmalloc_minimal_tracing.so"'
    local word command='' status=0
    if [ $# -eq 0 ]; then
        write_sql
        step 'record: the sqlite3 shell, under the tracing allocator' "$tracing \\
    sqlite3 :memory: <\"\$out/demo.sql\" >\"\$out/sqlite3-results.txt\""
    else
        for word in "$@"; do command+=" $(quoted "$word")"; done
        step 'record: your program, under the tracing allocator' "$tracing \\
   $command" || status=$?
        [ "$status" = 0 ] || say "$1 ended with status $status"
    fi
    [ -s "$out/raw.lz4" ] || die "no trace was written: is $1 a statically linked or a setuid program?"
}

order() {
    local cut_short_status=3
    quiet_step 'what was recorded, as the recorder counted it' \
        '"$bin/malloctape" info --json "$out/recorded.json" "$out/raw.lz4"'
    quiet_step 'order: one legal sequence of all calls' \
        '"$bin/postprocess" "$out/raw.lz4" /dev/stdout --json "$out/ordered.json" |
    "$bin/bump-pipes.rb" lz4 -q >"$out/p.lz4"'
}

compare() {
    local page=''
    # shellcheck disable=SC2086 # a list of names
    [ -n "$(packages_missing $CHART_PACKAGES)" ] || page=' --html "$out/compare.html"'
    cut_short_status=3 quiet_step 'replay: under every allocator that is installed' \
        "\"\$bin/malloctape\" compare \"\$out/p.lz4\" --json \"\$out/compare.json\"$page |
    tee \"\$out/table.txt\""
}

start_commands() {
    rm -rf "$out"
    mkdir -p "$out"
    {
        echo '#!/bin/bash'
        echo '# What run-demo.sh ran after the build. Running this does it again.'
        echo 'set -euo pipefail'
        echo "cd $(quoted "$caller_dir")"
        echo "out=$(quoted "$out")"
        echo "bin=$(quoted "$build/bin")"
        echo "lib=$(quoted "$build/lib")"
    } >"$out/commands.sh"
    chmod +x "$out/commands.sh"
}

run() {
    install_needed "$@" || exit 1
    install_wanted
    say "building in $build"
    build_tree "$build" || die 'the build failed'
    start_commands
    cd "$caller_dir"
    say "recording ${1:-sqlite3}"
    record "$@"
    order
    say 'replaying'
    compare
    ruby "$top/scripts/demo-report.rb" "$out"
    [ ! -e "$out/compare.html" ] || say "the same with charts: $out/compare.html"
    say "the trace, the reports and the commands that made them are in $out"
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
