#!/bin/bash
# bin/postprocess as a user sees it: files, pipes, exit statuses, messages, JSON.

set -u
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1}
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

postprocess=$bin/postprocess
make_raw=$build_dir/tests/tools/make_raw

# ends TEXT STATUS COMMAND... - one test; what COMMAND prints is in out and err.
ends() {
	local text=$1 expected=$2
	shift 2
	exit_status "$@" > out 2> err
	[ "$status" -eq "$expected" ] || echo "exit status $status, expected $expected" >> err
	report $((status != expected)) "$text"
}

says() { # TEXT PATTERN : in err
	grep -q -- "$2" err
	report $? "$1"
}

json() { # KEY : its value in the file json
	sed -n "s/^  \"$1\": \(.*[^,]\),\{0,1\}\$/\1/p" json
}

figures() { # what does not depend on time and place
	grep -v 'seconds\|events_per_second\|bytes_\|"input"' "$1"
}

is() { # TEXT ACTUAL EXPECTED
	[ "$2" = "$3" ] || echo "'$2' instead of '$3'" > err
	[ "$2" = "$3" ]
	report $? "$1"
}

one_processor() {
	taskset -c "$(taskset -cp $$ | sed 's/.*: \([0-9]*\).*/\1/')" "$@"
}

plan 98

"$make_raw" lanes=3 steps=40000 > raw || exit 99
"$make_raw" lanes=3 steps=40000 end=0 > cut || exit 99

ends "a complete recording" 0 "$postprocess" raw ordered
says "the summary has the events" "^events "
says "the summary has a kind" "^  malloc "
says "the summary has the status" "complete"
is "nothing on the standard output" "$(wc -c < out)" 0

# From a pipe, blocks end wherever the input runs dry; the figures are the same.
ends "quiet" 0 "$postprocess" -q -j json raw out2
figures json > figures
is "quiet means silent" "$(wc -c < err)" 0
cmp -s ordered out2
report $? "twice the same"

# Where there is no other, nobody reads ahead.
ends "with one processor" 0 one_processor "$postprocess" -q raw out2
cmp -s ordered out2
report $? "the same, too"
mkfifo pipe
(head -c 100000 cut; sleep 0.2; tail -c +100001 cut) > pipe &
ends "from a pipe, cut" 3 one_processor "$postprocess" -q -j json pipe out2
figures json > figures.alone
"$postprocess" -q -j json cut out3 2> err
figures json | cmp - figures.alone 2> err
report $? "all that there was came out"

"$postprocess" -q raw - > out 2> err && cmp -s out ordered
report $? "- is the standard output"
"$postprocess" -q raw /dev/stdout 2> err | cat > out && cmp -s out ordered
report $? "/dev/stdout is a pipe"
"$postprocess" -q raw /dev/stdout > out 2> err && cmp -s out ordered
report $? "/dev/stdout is a file"
"$postprocess" -q - out2 < raw 2> err && cmp -s out2 ordered
report $? "- is the standard input"
cat raw | "$postprocess" -q -j json /dev/stdin out2 2> err && figures json | cmp -s - figures
report $? "/dev/stdin is a pipe"

if command -v lz4 > /dev/null; then
	lz4 -q raw raw.lz4 && "$postprocess" -q raw.lz4 out2 2> err && cmp -s out2 ordered
	report $? "LZ4"
	lz4 -c raw 2> /dev/null | "$postprocess" -q -j json - out2 2> err &&
		figures json | cmp -s - figures
	report $? "LZ4 from a pipe"
else
	skip_test "LZ4" "no lz4"
	skip_test "LZ4 from a pipe" "no lz4"
fi

ends "JSON" 0 "$postprocess" -q --json=json raw ordered
is "JSON: status" "$(json status)" '"complete"'
is "JSON: truncated" "$(json truncated)" false
is "JSON: threads" "$(json threads)" 3
is "JSON: lost_events" "$(json lost_events)" 0
is "JSON: spool_used" "$(json spool_used)" false
is "JSON: bytes_out" "$(json bytes_out)" "$(($(wc -c < ordered)))"
events=$(json events)
[ "$events" -gt 20000 ]
report $? "JSON: events"
grep -q '^    "malloc": [0-9]' json && grep -q '^    "free": [0-9]' json
report $? "JSON: by_kind"
ends "JSON on the standard output" 0 "$postprocess" -q -j - raw ordered
grep -q '"live_at_end"' out
report $? "it is there"
ends "JSON and the stream cannot both go there" 2 "$postprocess" -q -j - raw -

printf 'MTAPEINS and what follows' > other
ends "an instruction stream" 1 "$postprocess" other out2
says "is told what it is" \
    "other: .*: this is an instruction stream, which is in order already; malloctape replay takes it$"
ends "a name that ends in .lz4" 0 "$postprocess" -q raw p.lz4
is "is a frame as lz4 makes it" "$(lz4 -dqc p.lz4 | cmp - ordered &&
    wc -c < p.lz4)" "$(lz4 -qc ordered | wc -c)"
ends "--compress and --no-compress" 2 "$postprocess" --compress --no-compress raw both.lz4
ends "--no-compress" 0 "$postprocess" -q --no-compress raw plain.lz4
is "writes as it is" "$(cmp plain.lz4 ordered && echo same)" same
ends "--compress" 0 "$postprocess" -q --compress raw -
is "writes a frame anywhere" "$(cmp out p.lz4 && echo same)" same
ends "a terminal is refused" 2 ruby -rpty -e '
	output, _, pid = PTY.spawn(*ARGV)
	begin
		loop { print output.readpartial(4096) }
	rescue EOFError, Errno::EIO
		Process.wait(pid)
	end
	exit($?.exitstatus)' "$postprocess" -q raw -
is "with a message" "$(head -n 1 out | tr -d '\r')" \
    "postprocess: the result is binary and is not written to a terminal"
ends "a recording without its end" 3 "$postprocess" --json=json cut ordered
says "it is said where it ends" "cut: the recording was cut short: offset 0x[0-9a-f]*: "
is "JSON: truncated" "$(json truncated)" true

head -c 150000 raw > damaged
printf 'XXXX' >> damaged
tail -c +150005 raw >> damaged
ends "a damaged recording" 1 "$postprocess" --json=json damaged ordered
says "the message names file, offset and section" \
    "^postprocess: damaged: offset 0x[0-9a-f]*: .*FORMAT.md 4.2"
says "a way out is named" "to leave out what is damaged and order the rest, use --salvage"
is "JSON: status" "$(json status)" '"damaged"'
[ "$(json events)" -gt 1000 ]
report $? "what comes before is ordered"

whole_events=$("$postprocess" -q -j - raw /dev/null | sed -n 's/^  "events": \(.*\),/\1/p')
ends "the same, salvaged" 5 "$postprocess" --salvage --json=json damaged ordered
says "the message tells how much was left out" \
    "^postprocess: damaged: damaged parts left out: [0-9]*; the first:"
is "JSON: status" "$(json status)" '"salvaged"'
[ "$(json events)" -gt $((whole_events / 2)) ]
report $? "what comes behind is ordered, too"

lz4 -q -f raw raw.lz4
printf 'XXXXXXXX' | dd of=raw.lz4 bs=1 seek=100 conv=notrunc status=none
ends "a block of LZ4 that cannot be decoded, salvaged" 1 "$postprocess" --salvage raw.lz4 ordered
says "it says what is damaged" "raw.lz4: offset 0x[0-9a-f]*: the LZ4 data is damaged: "
is "no way out is named" "$(grep -c -e 'use --salvage' err)" 0

echo "no recording" > text
ends "something else" 1 "$postprocess" text out2
says "it is no raw stream" "not a raw event stream"
cp raw same
ends "the input is never overwritten" 2 "$postprocess" same ./same
cmp -s raw same
report $? "it is as it was"
ends "no input" 2 "$postprocess" missing out2
says "the message names it" "postprocess: missing: cannot open"
ends "no such directory for the output" 2 "$postprocess" raw missing/out
says "the message names it" "postprocess: missing/out: cannot open"
ends "no arguments" 2 "$postprocess"
ends "an unknown option" 2 "$postprocess" --wrong raw ordered
ends "help" 0 "$postprocess" --help
ends "version" 0 "$postprocess" --version
if [ -w /dev/full ]; then
	ends "a full disk" 4 "$postprocess" -q -j json raw /dev/full
	is "JSON: input" "$(json input)" '"raw"'
else
	skip_test "a full disk" "no /dev/full"
	skip_test "JSON: input" "no /dev/full"
fi
{ "$postprocess" -q raw - 2> err; echo $? > status; } | head -c 10 > /dev/null
is "a reader that goes away" "$(cat status)" 4

has_grown() { [ "$(wc -c < "$1" 2> /dev/null || echo 0)" -gt "$2" ]; }

# A pipe that stays open: instructions come out while the recording goes on.
mkfifo live
rm -f out3 # that of before may still be there when its size is looked at
"$postprocess" -q live out3 2> err &
pid=$!
{
	cat cut
	wait_until has_grown out3 30000
	wc -c < out3 > size
} > live
wait $pid
[ "$(cat size)" -gt 30000 ]
report $? "instructions flow while the recording goes on"

# The first instruction leaves although little has come and more is to come.
rm -f out4
"$postprocess" -q live out4 2> err &
pid=$!
{
	head -c 30000 cut
	wait_until has_grown out4 200
	wc -c < out4 > size
} > live
wait $pid
[ "$(cat size)" -gt 200 ]
report $? "the first instruction does not wait for more input"

# Several recordings.
"$postprocess" -q raw whole
"$make_raw" lanes=2 steps=5000 seed=2 > two.raw
mkdir results
ends "several recordings into a directory" 0 "$postprocess" -q -j json -o results raw two.raw
cmp -s results/raw.ins whole
report $? "each has its own stream"
"$postprocess" -q two.raw two && cmp -s results/two.ins two
report $? "the other one, too"
is "JSON is an array" "$(grep -c '"input"' json)" 2
ends "--compress in a directory" 0 "$postprocess" -q --compress -o results raw two.raw
lz4 -dqc results/two.ins.lz4 | cmp -s - two
report $? "says so in the names"
ends "the worst exit status counts" 3 "$postprocess" -q -o results raw cut two.raw
ends "several recordings, one name" 2 "$postprocess" -q -o one raw two.raw
says "the message says what is needed" "-o needs a directory"
ends "one recording with -o" 0 "$postprocess" -q -o out5 raw
cmp -s out5 whole
report $? "is the same as without"
ends "a directory that is not there yet" 0 "$postprocess" -q -o newdir/ raw two.raw
cmp -s newdir/raw.ins whole && cmp -s newdir/two.ins two
report $? "is made"
ends "and may be there" 0 "$postprocess" -q -o newdir/ raw
ends "a directory that cannot be made" 2 "$postprocess" -q -o no/such/dir/ raw
says "the message names it" "no/such/dir/: cannot make the directory: No such file"
ends "one that takes nothing" 2 "$postprocess" -q -o raw/ two.raw
! grep -q '//' err
report $? "no name has two slashes"

# Nothing to read: the reason, and no table of zeros.
: > nothing
ends "an empty file" 1 "$postprocess" nothing out5
is "only the reason is said" "$(grep -c . err), $(grep -c ': the input is empty$' err)" "1, 1"

# Limits, and what is no terminal.
ends "no progress without a terminal" 0 "$postprocess" raw out5
! grep -q "left" err
report $? "it is not there"
ends "no such size" 2 "$postprocess" --max-memory=1X raw out5
enough=1G
if grep -Eq '__(a|t)san_init' "$postprocess"; then enough=1000000G; fi
ends "a size that is enough" 0 "$postprocess" -q --max-memory=$enough raw out5
