#!/bin/bash
# shellcheck disable=SC2016,SC2034 # $out, $bin and $scripts stand unexpanded in the commands of
# commands.sh demo.sh BUILD OUT [COMMAND [ARGUMENT...]] - run-demo.sh, once everything is installed
# and built in BUILD: records COMMAND, or the sqlite3 shell, compares allocators on it, and leaves
# everything in OUT.

set -euo pipefail

caller_dir=$PWD
scripts=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/packages.sh
. "$scripts/packages.sh"
build=$1 out=$2
shift 2
bin=$build/bin

# Fewer calls say more about the start of a program than about an allocator.
CALLS_MIN=10000

say() { echo "run-demo.sh: $*" >&2; }

die() {
    say "$*"
    exit 1
}

# A word as the shell would have to read it.
quoted() { printf "'%s'" "${1//\'/\'\\\'\'}"; }

# step COMMENT COMMAND - notes COMMAND in commands.sh and runs it. $bin, $lib and $out may stand in
# it.
step() {
    printf '\n# %s\n%s\n' "$1" "$2" >>"$out/commands.sh"
    eval "$2"
}

# quiet_step COMMENT COMMAND - the same; what COMMAND prints goes to log.txt, and is shown if it
# fails. The status in $cut_short_status is no failure.
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

# --- the program ----------------------------------------------------------------------------------

# A deterministic database: the numbers look random and are not. Results go to standard output.
write_sql() {
    cat >"$out/demo.sql" <<'SQL'
CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT, city TEXT, allocated INTEGER, balance REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400000)
INSERT INTO people
SELECT i, printf('person %d of %d', i * 7919 % 400009, i), 'city ' || (i * 104729 % 5003),
       1920 + i * 31 % 100, (i * 1299709 % 1000003) / 100.0
FROM n;
CREATE INDEX people_by_city ON people(city, allocated);
SELECT count(*), sum(balance), max(name) FROM people;
SELECT city, count(*) AS inhabitants, avg(balance) FROM people
GROUP BY city ORDER BY inhabitants DESC, city LIMIT 20;
SELECT allocated, group_concat(substr(name, -6)) FROM people
WHERE city LIKE 'city 49%' GROUP BY allocated LIMIT 50;
SELECT a.name, b.name FROM people a JOIN people b
ON a.city = b.city AND a.allocated = b.allocated AND a.id < b.id
ORDER BY a.name, b.name LIMIT 100;
UPDATE people SET name = upper(name) || ' ' || city WHERE id % 3 = 0;
SELECT name FROM people ORDER BY name DESC LIMIT 100;
DELETE FROM people WHERE allocated < 1970;
SELECT count(*), length(group_concat(name)) FROM people;
SQL
}

# Ctrl-C ends the program; what it did until then goes on to be compared.
record() {
    local word command='' input=''
    if [ $# -eq 0 ]; then
        write_sql
        command=' sqlite3 :memory:'
        input=' \
        <"$out/demo.sql" >"$out/sqlite3-results.txt"'
    fi
    for word in "$@"; do command+=" $(quoted "$word")"; done
    step 'record: the program, and every program that it starts, under the tracing allocator' \
        "trap : INT
rm -rf \"\$out/raw\" \"\$out\"/raw.lz4*
mkdir \"\$out/raw\"
\"\$bin/malloctape\" record --follow -o \"\$out/raw/%e.%p.raw.lz4\" -- \\
   $command$input ||
    echo \"the program ended with status \$?\" >&2
trap - INT"
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
    mkdir -p "$out"
    {
        echo '#!/bin/bash'
        echo '# What run-demo.sh ran after the build. Running this does it again.'
        echo 'set -euo pipefail'
        echo "cd $(quoted "$caller_dir")"
        echo "out=$(quoted "$out")"
        echo "bin=$(quoted "$bin")"
        echo "scripts=$(quoted "$scripts")"
    } >"$out/commands.sh"
    chmod +x "$out/commands.sh"
}

rm -rf "$out"
start_commands
say "recording ${1:-sqlite3}"
record "$@"
step 'choose: the process with the most calls' \
    'ruby "$scripts/demo-choose.rb" "$bin/malloctape" "$out"'
order
calls=$(ruby -rjson -e 'puts JSON.parse(File.read(ARGV[0]))["events"]' "$out/recorded.json")
if [ "$calls" -ge "$CALLS_MIN" ]; then
    say 'replaying'
    compare
else
    say "$calls calls are too few to compare allocators by: less than $CALLS_MIN"
fi
ruby "$scripts/demo-report.rb" "$out"
say "here the program had the recorder's tcmalloc; to choose an allocator for it, record it on its own:"
say "  malloctape record --allocator=program -o own.raw.lz4 -- COMMAND"
[ ! -e "$out/compare.html" ] || say "the same with charts: $out/compare.html"
say "the trace, the reports and the commands that made them are in $out"
