#!/bin/bash
# ground_truth_test.sh - every free and realloc in a recording names the object that the program
# says it ended, however threads hand objects to and fro.
#
# MALLOCTAPE_LONG set: a hundred times as many.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

rounds=$(size 100000 10000000)

# hands_over THREADS MODE - MODE is "strict" or nothing.
hands_over() {
    # shellcheck disable=SC2086 # no MODE is no word
    recorded raw.lz4 "$workloads/handoff" "$1" $((rounds / $1)) log $2 || return 1
    "$bin/malloctape" dump raw.lz4 2>err |
        "$build_dir/tests/tools/handoff_check" "$1" log >out 2>>err || return 1
    sed 's/^/# /' out
}

# The check must notice one object that is taken for another, one free too few, and one wrong size.
notices() {
    "$bin/malloctape" dump raw.lz4 2>err | ruby -e "$1" |
        "$build_dir/tests/tools/handoff_check" 2 log >out 2>>err && return 1
    grep -q "$2" out
}
# shellcheck disable=SC2016 # Ruby
one_object_off='n = 0
STDIN.each_line do |line|
    n += 1 if line.include?(" free ")
    line.sub!(/ free (\S*)@(\d+)/) { " free #{$1}@#{$2.to_i - 1}" } if n == 5000
    n += 1 if n == 5000
    puts line
end'
one_free_less='n = 0
STDIN.each_line { |line| puts line unless line.include?(" free ") && (n += 1) == 5000 }'
# shellcheck disable=SC2016 # Ruby
one_size_off='n = 0
STDIN.each_line do |line|
    n += 1 if line =~ / malloc \d+ -> /
    line.sub!(/ malloc (\d+)/) { " malloc #{$1.to_i + 1}" } if n == 5000
    n += 1 if n == 5000
    puts line
end'

plan 9
check '2 threads, one object on its way at a time' hands_over 2 strict
check '4 threads, one object on its way at a time' hands_over 4 strict
check '3 threads' hands_over 3 ''
check '4 threads' hands_over 4 ''
check '8 threads' hands_over 8 ''
check '16 threads, one object on its way at a time' hands_over 16 strict
rounds=20000
hands_over 2 '' >hands || cat hands
check 'one object taken for another would be noticed' notices "$one_object_off" '5000\|object ended'
check 'a free that is not recorded would be noticed' notices "$one_free_less" \
    'number of objects ended'
check 'a size off by one would be noticed' notices "$one_size_off" 'size'
