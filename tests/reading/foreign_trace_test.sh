#!/bin/bash
# foreign_trace_test.sh - a trace is data: whoever made it can have nothing run, opened or set, and
# no terminal, JSON or page made to do anything.
set -euo pipefail

. "$(dirname "$0")/../cli_tap.sh"

plan 13

make_instructions=$build_dir/tests/tools/make_instructions
make_hostile=$build_dir/tests/tools/make_hostile

# metadata - of a trace that wants to run, open and set things; its program is a FIFO.
metadata() {
    printf '%s\n' run=1 "program=$PWD/program" "allocator=glibc 2.36" pid=-1 start=1e999 \
        "statistics=mmap_threshold_bytes evil" \
        env.LD_PRELOAD=./evil.so env.LD_AUDIT=./evil.so env.LD_LIBRARY_PATH=. \
        env.GCONV_PATH=. env.PATH=. env.BASH_ENV=./evil.sh env.TMPDIR=/nowhere \
        env.MALLOC_TRACE=traced env.MALLOC_CHECK_=3 env.MALLOC_ARENA_MAX=2 \
        env.MALLOC_TOP_PAD_=1/2 env.GLIBC_TUNABLES=glibc.rtld.nns=9:glibc.malloc.arena_test=3 \
        env.MALLOC_CONF=narenas:3,prof:true,prof_prefix:./evil,stats_print:true \
        env.TCMALLOC_TRACE_OUTPUT=traced env.TCMALLOC_MEMFS_MALLOC_PATH=./evil \
        env.MIMALLOC_SHOW_STATS=1 env.MIMALLOC_PURGE_DELAY=7 env.=x env.A env.REPLAY_RELEASE_EVERY=1
}

# The real malloctape, which finds a replay beside it that notes the environment it was given.
mkdir wrapped traces
ln "$bin/malloctape" wrapped/ 2>/dev/null || cp "$bin/malloctape" wrapped/
ln "$bin/postprocess" wrapped/ 2>/dev/null || cp "$bin/postprocess" wrapped/
cat >wrapped/replay <<END
#!/bin/bash -p
env >>"$PWD/seen"
exec "$bin/replay" "\$@"
END
chmod +x wrapped/replay
mkfifo program
metadata >wants
"$make_instructions" metadata wants >foreign

# has_only_known - what replays were given besides what everybody has.
has_only_known() {
    grep -E '^(LD_|GCONV|BASH_ENV|TMPDIR=/no|MALLOC_|GLIBC|TCMALLOC|MIMALLOC|A=|=|REPLAY_|JE_)' seen |
        sort -u >set
    diff set - <<END
GLIBC_TUNABLES=glibc.malloc.arena_test=3
MALLOC_ARENA_MAX=2
MALLOC_CONF=narenas:3
MIMALLOC_PURGE_DELAY=7
END
}
says_what_is_ignored() {
    tr '\n' ' ' <"$1" | tr -s ' ' | grep -o 'recorded settings are ignored that .*' >ignored
    for part in LD_PRELOAD=./evil.so MALLOC_TRACE=traced GLIBC_TUNABLES=glibc.rtld.nns=9; do
        grep -q -F -e "$part" ignored || return 1
    done
    ! grep -q ARENA_MAX ignored
}
# of_foreign WORDS... - runs malloctape, while somebody waits for a reader of the program's file; it
# must end well, and nobody come.
of_foreign() {
    : >seen
    (exec >/dev/null 2>&1 && echo waited >program && : >opened) &
    local waiting=$!
    exit_status wrapped/malloctape "$@" >out 2>err
    kill "$waiting"
    [ "$status" = 0 ] && [ ! -e opened ]
}
report_sets_nothing() {
    of_foreign report --under --json report.json foreign && has_only_known && says_what_is_ignored out &&
        json report.json 'j["under"]["ignored_settings"].include?("LD_AUDIT=./evil.so") &&
            j["under"]["allocator"] == "glibc"'
}
compare_sets_nothing() {
    of_foreign compare foreign -r 1 -a glibc --json compare.json && has_only_known && says_what_is_ignored out &&
        json compare.json 'j["warnings"].any? { |text| text.include?("LD_AUDIT=./evil.so") }'
}

# Nothing may make a terminal do anything, and all that is said is UTF-8.
is_printable() {
    ruby -e 'text = $stdin.binmode.read.force_encoding("UTF-8")
        exit text.valid_encoding? && text !~ /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/' <"$1"
}
# metadata of a name with an escape sequence, an end of a script, what is no UTF-8, and a mark that
# turns the direction.
printf 'program=/x/\x1b]0;evil\x07</script><b>\xff\xc2\x9b\xe2\x80\xae\xc3\xa9\nallocator=glibc \x1b[2J\npid=\x1b[1m\nmalloc=\x1b[3m\nsource=\x1b\nlacks=\x1b\nstatistics=a\x1bb\nrun=\x1b[4m\nenv.\x1b[31m=\xff\n' >texts
"$make_instructions" metadata texts >instructions
"$make_hostile" metadata texts >raw
wanted='/x/\x1b]0;evil\x07</script><b>\xff\xc2\x9b\xe2\x80\xaeé'
prints_texts() {
    for of in raw instructions; do
        exits 0 info --json info.json $of && is_printable out && is_printable info.json &&
            grep -q -F -e "$wanted" out && WANTED=$wanted json info.json 'j["program"] == ENV["WANTED"]' &&
            exits 0 dump $of && is_printable out && grep -q -F -e "program=$wanted" out &&
            reference_dump $of >reference && cmp reference out &&
            exits 0 report $of --json report.json && is_printable out &&
            WANTED=$wanted json report.json 'j["program"] == ENV["WANTED"]' || return 1
    done
    exits 0 compare raw -r 1 -a glibc --json compare.json && is_printable out && is_printable err &&
        WANTED=$wanted json compare.json 'j["trace"]["program"] == ENV["WANTED"]'
}
under_prints_texts() { exits 0 report --under raw && is_printable out && is_printable err; }
pages_hold_texts() {
    [ -e /usr/share/javascript/chart.js ] || [ -e /usr/share/nodejs/chart.js ] || return 0
    exits 0 report raw --html report.html && exits 0 compare raw -r 1 -a glibc --html compare.html &&
        for page in report.html compare.html; do
            ! grep -q -a -F 'x07</script>' "$page" && ! grep -q -a '<b>' "$page" || return 1
        done
}
replay_prints_texts() {
    exit_status "$bin/replay" --json replay.json instructions >out 2>err
    [ "$status" = 0 ] && is_printable out && is_printable err && is_printable replay.json &&
        WANTED=$wanted json replay.json 'j["program"] == ENV["WANTED"] &&
            j["recorded_settings"] == { "\\x1b[31m" => "\\xff" }'
}

# A file in a zip may have any name.
names_of_archives() {
    ruby -rzlib -e '
        local, central = "".b, "".b
        ["a", "b\e[2J"].each do |name|
            head = [20, 0, 0, 0, 0, Zlib.crc32("x"), 1, 1, name.bytesize, 0].pack("v5V3v2")
            central << "PK\1\2" << [20].pack("v") << head << [0, 0, 0, 0, local.bytesize].pack("v3V2") << name
            local << "PK\3\4" << head << name << "x"
        end
        print local, central, "PK\5\6", [0, 0, 2, 2, central.bytesize, local.bytesize, 0].pack("v4V2v")' >two.zip
    exits 1 import two.zip -o imported && is_printable err && says 'b\\x1b\[2J'
}

# Beside a stream that was cut: a FIFO, a link to elsewhere.
spools_are_files() {
    head -c -5 raw >traces/fifo && mkfifo traces/fifo.spool
    cp traces/fifo traces/link && ln -s /etc/passwd traces/link.spool
    for name in fifo link; do
        exits 3 info "traces/$name" && prints '^spool  *none$' || return 1
        exit_status timeout 300 "$bin/postprocess" --quiet "traces/$name" ordered >out 2>err
        [ "$status" = 3 ] && ! says 'the spool' || return 1
    done
}

# Each lane has a few bytes of the file, and takes little memory: 60 000 of them took 12 GB.
memory_of_lanes() {
    "$make_hostile" lanes 20000 >lanes
    exits 0 info lanes && prints '^events  *20000$' &&
        [ "$(most_memory "$bin/malloctape" info lanes)" -lt 400000 ] &&
        [ "$(most_memory "$bin/postprocess" --quiet lanes ordered)" -lt 600000 ]
}
# most_memory COMMAND... - the most KiB that it had.
most_memory() {
    ruby -rfiddle -e '
        Process.wait(spawn(*ARGV, [:out, :err] => "/dev/null"))
        usage = "\0".b * 144
        Fiddle::Function.new(Fiddle.dlopen(nil)["getrusage"], [Fiddle::TYPE_INT, Fiddle::TYPE_VOIDP],
            Fiddle::TYPE_INT).call(-1, usage)
        puts usage.unpack1("@32q")' "$@"
}

# Objects that all seem to live at one place are not gone through again and again.
crowd_is_refused() {
    "$make_hostile" crowd 200000 >crowd
    exits 1 verify crowd && says 'more than 1000 objects seem to be live at one place' &&
        "$make_hostile" crowd 900 >crowd && exits 0 verify crowd
}

# Functions of Python with any name, file, line and caller: what reads them ends well, and prints text.
prints_any_functions() {
    local seed
    for seed in 2 4; do
        "$make_hostile" source $seed >source
        exits 0 verify source && exits 0 dump source && is_printable out &&
            reference_dump source >reference && cmp reference out &&
            exits 0 report source --by function --json source.json --html source.html &&
            is_printable out && is_printable source.json &&
            exits 0 report source --by stack && is_printable out &&
            exits 0 report source --by file && is_printable out &&
            exits 0 export --to folded --frames interpreted -o folded source || return 1
        ! grep -q -a '</script><b>' source.html || return 1
        json source.json 'j["code"]["rows"]["name"].any? { |name| name.include?("<module>") }' || return 1
    done
}
# Those that are not allowed end in one line that says where.
refuses_wrong_functions() {
    local seed refused=0
    for seed in $(seq 1 2 11); do
        "$make_hostile" source "$seed" >source
        exit_status "$bin/malloctape" report source --by function >out 2>err
        is_printable out && is_printable err || return 1
        [ "$status" != 0 ] || continue
        [ "$status" = 1 ] && [ "$(wc -l <err)" = 1 ] && says 'offset 0x' || return 1
        refused=$((refused + 1))
    done
    [ "$refused" -gt 2 ]
}

# Numbers beyond 2^63 are none below 0, nor undefined.
large_numbers() {
    sample instructions_large
    exits 0 info --json info.json instructions_large &&
        json info.json 'j["peak_rss_bytes"] > 1e19 && j["duration_ns"] > 1e19' &&
        exits 0 report --json report.json instructions_large &&
        json report.json 'j["sizes"]["size"].all? { |size| size > 1e19 } &&
            j["others"].values.compact.all? { |one| one >= 0 }'
}

if [ -z "$sanitized" ]; then
    check 'report --under sets, opens and runs nothing that a trace wants' report_sets_nothing
    check 'compare neither' compare_sets_nothing
    check 'report --under prints printable texts' under_prints_texts
else
    skip_test 'report --under' 'a sanitizer has its own malloc'
    skip_test 'compare' 'a sanitizer has its own malloc'
    skip_test 'report --under' 'a sanitizer maps terabytes, whose pages would all be looked at'
fi
check 'texts of a trace are printable' prints_texts
check 'pages hold them as text' pages_hold_texts
check 'replay prints them so' replay_prints_texts
check 'names in archives' names_of_archives
check 'a spool is a file, or nothing' spools_are_files
if grep -qs __tsan_init "$bin/postprocess"; then
    skip_test 'memory for lanes with next to nothing in them' 'ThreadSanitizer takes several times as much'
else
    check 'memory for lanes with next to nothing in them' memory_of_lanes
fi
check 'verify ends where objects crowd at one place' crowd_is_refused
check 'numbers of 2^63 and more' large_numbers
check 'any functions of Python are printed' prints_any_functions
check 'functions that are not allowed are refused' refuses_wrong_functions
