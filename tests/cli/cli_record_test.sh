#!/bin/bash
# cli_record_test.sh - `malloctape record` runs a program as it is, but recorded, and says
# beforehand when that cannot work; and the front end's own help and errors.
set -euo pipefail

. "$(dirname "$0")/../cli_tap.sh"

plan 60

# --- the program ---

# Objects are numbered from 1 by the program, and by the recording from what the start of the
# process had made; what ends is told by its place.
calls_between_marks() {
    "$bin/malloctape" dump --only-calls "$1" | ruby -ne '
        $on ||= $_.start_with?("malloc 424242 ")
        next unless $on
        allocated = $_[/-> 0:(\d+)@/, 1]
        $first ||= allocated.to_i
        ($at ||= {})[:allocated] = allocated.to_i - $first + 1 if allocated
        text = $_.sub(/ @(\d+)/) { " #{$at[$1]}" }
            .sub(/-> 0:\d+@(\d+)/) { "-> #{$at[$1] = $at[:allocated]}" }
        puts text
        ended ||= text[/^malloc 434343 -> (.*)/, 1]
        $last ||= ended
        exit if $last && text == "free #{$last}\n"'
}

records_known_calls() {
    record known.raw.lz4 "$workloads/known_calls" -p && calls_between_marks known.raw.lz4 >out &&
        diff printed out
}

keeps_status() { exits 7 record -o f.raw.lz4 sh -c 'exit 7'; }
keeps_arguments() {
    exits 0 record -o f.raw.lz4 -- printf '<%s>' 'a  b' '*' -o '' &&
        [ "$(cat out)" = '<a  b><*><-o><>' ]
}
# record_sends SIGNAL COMMAND... - the process of record gets the signal once the program has
# printed a line.
record_sends() {
    local signal=$1 recorder
    shift
    rm -f signal.raw.lz4* out
    "$bin/malloctape" record -o signal.raw.lz4 "$@" >out 2>err &
    recorder=$!
    wait_until test -s out
    kill -"$signal" $recorder
    exit_status wait $recorder
}

passes_signals_on() {
    record_sends TERM sh -c 'trap "exit 9" TERM; echo ready; while :; do sleep 0.05; done'
    [ "$status" = 9 ]
}

# says_events FILE - a line says where they are and how many, as `info` has them.
says_events() {
    local events
    "$bin/malloctape" info --json info.json "$1" >out 2>&1 || return 1
    events=$(json_value info.json events)
    says "^malloctape: $PWD/$1: $events events, [0-9]* bytes$2" && [ ! -e "$1.spool" ]
}

ends_of_a_signal() {
    record_sends TERM sh -c 'echo ready; exec sleep 3600'
    [ "$status" = 143 ] && says_events signal.raw.lz4 '' || return 1
    record_sends INT ruby -e \
        'Signal.trap(:INT, "SYSTEM_DEFAULT"); puts "ready"; $stdout.flush; sleep 3600'
    [ "$status" = 130 ] && says_events signal.raw.lz4 '; finished by record' &&
        exits 0 verify signal.raw.lz4
}

# finishes STATUS LEAVE THREADS - a program that leaves by a way that nobody sees: all is there, and
# complete.
finishes() {
    rm -f left.raw.lz4*
    exits "$1" record -o left.raw.lz4 "$workloads/leave" "$2" "$3" &&
        says_events left.raw.lz4 '; finished by record' &&
        exits 0 verify left.raw.lz4 && exits 0 info left.raw.lz4 && prints '^end *complete$' &&
        "$bin/malloctape" dump --only-calls left.raw.lz4 | grep -c '^malloc 777 -> ' >out &&
        [ "$(cat out)" = $(($3 * 100000)) ] && [ -z "$(find . -name '*.spool')" ]
}

finishes_followed() {
    mkdir -p followed
    exits 7 record --follow -o followed/%p.lz4 sh -c \
        "$workloads/leave group 1; $workloads/leave kill 1; exit 7" &&
        says '^malloctape record: 3 recordings, [0-9]* events: ' &&
        exits 5 record --follow -o followed/one.%p.lz4 "$workloads/leave" group 1 &&
        says '^malloctape record: 1 recording, [0-9]* events: ' &&
        [ -z "$(find followed -name '*.spool')" ] || return 1
    for file in followed/*; do exits 0 verify "$file" || return 1; done
}

# Without record, nobody is there to do it: every event is there, and info says so.
says_what_is_known() {
    rm -f left.raw.lz4*
    exit_status recorded left.raw.lz4 "$workloads/leave" group 1
    [ "$status" = 5 ] && exits 3 info left.raw.lz4 &&
        prints "^end *cut short, but every event is here: the program is still running, was killed" &&
        rm left.raw.lz4.spool && exits 3 info left.raw.lz4 &&
        prints '^end *cut short, and no spool'
}

# What the tracing library and its C++ runtime take for themselves is not the program's.
has_only_its_own_calls() {
    exits 0 record -o own.raw.lz4 "$workloads/leave" stats 1 &&
        "$bin/malloctape" dump --only-calls own.raw.lz4 | cut -d ' ' -f 1,2 | grep -v '^free' |
        sort | uniq -c >out && [ "$(tr -s ' ' <out)" = ' 100000 malloc 777' ] &&
        lz4 -dc own.raw.lz4 >plain && grep -a -q '^own=72704$' plain
}

# --- another malloc ---

# is_foreign STATUS COMMAND...
is_foreign() {
    local wanted=$1
    shift
    exits "$wanted" record -o foreign.raw.lz4 "$@" &&
        says ' 0 events.*; another malloc is in use: .*own_malloc$' &&
        exits 0 info foreign.raw.lz4 &&
        prints '^warning *another malloc is in use: .*own_malloc$' &&
        exits 0 report foreign.raw.lz4 &&
        prints '^! Another malloc is in use, .*own_malloc: no call of it was recorded\.$'
}

own_malloc_is_noticed() {
    is_foreign 125 "$workloads/own_malloc" 0 && is_foreign 7 "$workloads/own_malloc" 7
}

# Among several recordings, those are told apart.
own_malloc_is_counted() {
    rm -f foreign.*
    exits 0 record --follow -o foreign.%p.lz4 -- sh -c "$workloads/own_malloc 0; true" &&
        says ': 2 recordings, [0-9]* events; in 1 another malloc is in use, with none: ' &&
        exits 0 info foreign.*.lz4 &&
        prints ' 0 events .*own_malloc .*: complete; another malloc is in use$' &&
        [ "$(grep -c 'another malloc' out)" = 1 ]
}

# A program at a fixed address has a stub of malloc, which is no malloc of its own.
stub_is_ours() {
    exits 0 record -o fixed.raw.lz4 "$workloads/fixed" && ! says 'another malloc' &&
        exits 0 info fixed.raw.lz4 && ! prints 'another malloc' && prints '^ *malloc  *1 '
}

# --- who speaks ---

# Of a process and its children only the one that was started, whether record is there or not.
only_the_first_speaks() {
    local program='ls / >/dev/null; (ls / >/dev/null); :'
    exits 0 record --follow -o %p.speaks sh -c "$program" && [ "$(grep -c . err)" = 2 ] &&
        says '^malloctape record: 3 recordings' && exits 0 record -o %p.speaks sh -c "$program" ||
        return 1
    recorded %p.speaks sh -c "$program" &&
        [ "$(grep -c '^malloctape: [0-9]*.speaks: ' err)" = 1 ] &&
        [ "$(grep -c . err)" = 1 ]
}

nothing_recorded() {
    (export TCMALLOC_TRACE_MAX_BYTES=much && exits 125 record -o f.raw.lz4 true) &&
        says '^malloctape: not recording: TCMALLOC_TRACE_MAX_BYTES=much ' &&
        says 'nothing was recorded$'
}

passes_stdin() {
    echo hello | "$bin/malloctape" record -o f.raw.lz4 cat >out 2>err && [ "$(cat out)" = hello ]
}

default_name() {
    exits 0 record true && says " to $PWD/true.raw.lz4" && [ -s true.raw.lz4 ]
}

default_name_never_replaces() {
    cp /bin/true own && cp /bin/true other && echo text >other.raw.lz4 && rm -f own.*
    exits 0 record ./own && cp own.raw.lz4 first && exits 0 record ./own &&
        says " to $PWD/own.2.raw.lz4" && cmp first own.raw.lz4 && exits 0 verify own.2.raw.lz4 &&
        exits 0 record ./own && exits 0 verify own.3.raw.lz4 &&
        exits 0 record ./other && [ "$(cat other.raw.lz4)" = text ] && [ -s other.2.raw.lz4 ] ||
        return 1
    # What begins no recording leaves no file.
    (export TCMALLOC_TRACE_MAX_EVENTS=much && exits 125 record ./own) && [ ! -e own.4.raw.lz4 ]
}

# With -o a recording is replaced, and an empty file; nothing else.
replaces_only_recordings() {
    echo 'int main;' >a.cc && exits 1 record -o a.cc true &&
        says 'a.cc exists and is not a recording: remove it, or' && [ "$(cat a.cc)" = 'int main;' ] &&
        sample instructions_example && cp instructions_example p.lz4 && exits 1 record -o p.lz4 true &&
        cmp instructions_example p.lz4 || return 1
    : >empty.lz4
    exits 0 record -o empty.lz4 true && exits 0 verify empty.lz4 &&
        exits 0 record -o empty.lz4 "$workloads/known_calls" && exits 0 info empty.lz4 &&
        prints known_calls && lz4 -dc empty.lz4 >plain.raw && exits 0 record -o plain.raw true
}

says_on_which_allocator() {
    exits 0 record -o f.raw.lz4 true &&
        says "^malloctape record: recording on malloctape's tcmalloc (--allocator=program: its own)\
 to $PWD/f.raw.lz4\$" && exits 0 record -o f.raw.lz4 --allocator=program true &&
        says "recording on the program's own allocator to $PWD/f.raw.lz4\$" &&
        exits 0 record -q -o f.raw.lz4 true && [ ! -s err ] && exits 0 verify f.raw.lz4
}

# in_full_directory COMMAND... - TMPDIR and /tmp are a file system without space.
in_full_directory() {
    # shellcheck disable=SC2016
    unshare "$@" sh -c 'mount -t tmpfs -o size=64k tmpfs /tmp && cd "$1" &&
        { head -c 100k /dev/zero >/tmp/full 2>/dev/null; : >/tmp/one && ! echo >/tmp/one; } 2>&1 &&
        TMPDIR=/tmp "$2" record -o full.raw.lz4 "$3" >printed 2>err' sh "$PWD" "$bin/malloctape" \
        "$workloads/known_calls" >out 2>&1
}
full_temporary_directory() {
    in_full_directory "$@" && exits 0 verify full.raw.lz4
}

ends_by_its_limits() {
    exits 0 record --max-bytes 4k -o f.raw.lz4 ruby -e 'a = (1..100000).map { |i| i.to_s * 9 }' &&
        says 'a limit was reached' && [ "$(stat -c %s f.raw.lz4)" -le 4096 ] &&
        exits 0 verify f.raw.lz4 &&
        exits 0 record --seconds 1 -o f.raw.lz4 ruby -e 'a = Time.now
            sleep 0.01 while File.stat("f.raw.lz4").size.zero? || Time.now - a < 2.5' &&
        says 'a limit was reached' && exits 0 verify f.raw.lz4 &&
        exits 2 record --seconds soon true && says 'not a whole number' && exits 2 record --max-bytes -1 true
}

records_stacks() {
    local of
    for of in --stacks --stacks=64k --stacks=all --stacks=all,frees; do
        exits 0 record "$of" -o s.raw.lz4 "$workloads/churn" 1 100 20000 &&
            exits 0 info s.raw.lz4 && grep -q 'with call stacks' out || return 1
    done
    exits 0 record -o s.raw.lz4 "$workloads/churn" 1 100 1000 && exits 0 info s.raw.lz4 &&
        ! grep -q 'call stacks' out && exits 2 record --stacks=many true &&
        says 'neither all nor a number' && exits 2 record --stacks=3 true &&
        says 'at least 1024 bytes' || return 1
    export TCMALLOC_TRACE_STACKS=3
    exits 125 record true && says 'TCMALLOC_TRACE_STACKS=3 is neither' || status=1
    unset TCMALLOC_TRACE_STACKS
    [ "$status" = 125 ]
}

is_asked_meanwhile() {
    rm -f asked*.raw.lz4 leave program
    "$bin/malloctape" record --control -o asked.raw.lz4 ruby -e 'File.write("program.new", $$.to_s)
        File.rename("program.new", "program")
        sleep 0.01 until File.exist?("leave")' >out 2>err &
    local recorder=$! good=1
    wait_until test -s program
    wait_until "$bin/malloctape" ctl "$(cat program)" status >printed 2>&1
    grep -q '^recording to .*/asked.raw.lz4: ' printed &&
        "$bin/malloctape" top --count 1 "$(cat program)" >printed 2>&1 &&
        "$bin/malloctape" ctl "$(cat program)" reset "$PWD/asked.raw.lz4" >printed 2>&1 && good=0
    touch leave
    wait $recorder && [ $good = 0 ] && rm leave && exits 0 verify asked.raw.lz4 &&
        exits 0 verify asked.raw.2.lz4 && exits 2 record --control --pid 1
}
begins_idle() {
    rm -f idle.raw.lz4 program
    "$bin/malloctape" record --idle ruby -e 'File.write("program.new", $$.to_s)
        File.rename("program.new", "program")
        sleep 0.05 until File.exist?("leave")' >out 2>err &
    local recorder=$!
    wait_until test -e program && says "on malloctape's tcmalloc.*; .malloctape ctl $(cat program)" &&
        [ -z "$(ls ruby*.raw.lz4 2>/dev/null)" ] &&
        "$bin/malloctape" ctl "$(cat program)" start "$PWD/idle.raw.lz4" >printed 2>&1
    local started=$?
    touch leave
    wait $recorder && [ $started = 0 ] && rm leave && says_events idle.raw.lz4 '' &&
        ! says 'not recorded' &&
        exits 0 verify idle.raw.lz4 && exits 2 record --idle -o f.raw.lz4 true
}

default_name_of_path() { cp /bin/true own && exits 0 record ./own && [ -s own.raw.lz4 ]; }

survives_chdir() {
    mkdir -p elsewhere
    exits 0 record -o chdir.raw.lz4 ruby -e 'Dir.chdir("elsewhere")' && [ -s chdir.raw.lz4 ] &&
        [ ! -e elsewhere/chdir.raw.lz4 ]
}

lz4_decodes() { lz4 -dc known.raw.lz4 >plain && [ "$(head -c 8 plain)" = MTAPERAW ]; }

records_script() {
    printf '#!/bin/sh\nexit 5\n' >script
    chmod +x script
    exits 5 record -o script.raw.lz4 ./script && [ -s script.raw.lz4 ] && ! says warning
}

# AddressSanitizer, in a build with it, would rather come first itself.
puts_library_first() {
    ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD=libm.so.6 \
        "$bin/malloctape" record -o f.raw.lz4 sh -c 'echo "$LD_PRELOAD"' >out 2>err &&
        [ "$(cat out)" = "$(realpath "$tracing_library"):libm.so.6" ]
}

finds_library_by_variable() {
    mkdir -p libraries
    cp "$tracing_library" libraries/
    MALLOCTAPE_LIBDIR=$PWD/libraries "$bin/malloctape" record -o f.raw.lz4 sh -c \
        'echo "$LD_PRELOAD"' >out 2>err &&
        [ "$(cat out)" = "$(realpath libraries)/libtcmalloc_minimal_tracing.so" ]
}

# --- what cannot work ---

not_found() {
    exits 127 record no-such-program-anywhere &&
        says '^malloctape record: no-such-program-anywhere: not found$'
}
path_not_found() { exits 127 record ./no-such-program && says 'not found$'; }

not_executable() {
    echo plain >plain-file && exits 126 record ./plain-file && says 'cannot be executed$'
}

directory() { exits 126 record / && says 'cannot be executed$'; }

# A directory of $PATH that may not be searched is passed by; root may search them all.
path_may_not_be_searched() {
    mkdir -p closed
    chmod 0 closed
    (PATH=$PWD/closed:$PATH && exits 127 record no-such-program-anywhere) && says 'not found$'
}

output_is_not_standard() {
    exits 2 record -o - true && says '^malloctape record: -o -: ' && [ ! -e - ]
}
output_has_unknown_letter() {
    exits 2 record -o %q true && says '^malloctape record: -o %q: % must be one of' && [ ! -e %q ]
}

library_missing() {
    (export MALLOCTAPE_LIBDIR=/nonexistent && exits 1 record true) &&
        says 'libtcmalloc_minimal_tracing.so not found; looked in /nonexistent'
}

library_in_strange_place() {
    mkdir -p 'with space'
    cp "$tracing_library" 'with space/'
    (export MALLOCTAPE_LIBDIR="$PWD/with space" && exits 1 record true) &&
        says 'LD_PRELOAD cannot contain'
}

directory_missing() {
    exits 1 record -o missing/f.raw.lz4 true && says 'cannot write into .*/missing: No such'
}

output_is_directory() {
    mkdir -p elsewhere && exits 1 record -o elsewhere true && says 'elsewhere is a directory'
}
output_leads_nowhere() {
    ln -s no-such-file nowhere.lz4 && exits 1 record -o nowhere.lz4 true &&
        says 'nowhere.lz4 is a symbolic link to a file that is not there$'
}
directory_is_gone() {
    mkdir gone &&
        (cd gone && rmdir ../gone && exit_status "$bin/malloctape" record true 2>../err && [ "$status" = 1 ]) &&
        says 'the current directory: No such file'
}

# An ELF file of this machine that has no dynamic linker; whether it runs is of no interest.
warns_static() {
    ruby -e '
        machine = File.binread("/proc/self/exe", 2, 18)
        header = "\x7fELF\x02\x01\x01".b.ljust(16, "\0") + [2].pack("v") + machine + [1].pack("V") +
                 [0x400078, 64, 0].pack("Q<3") + [0, 64, 56, 1, 0, 0, 0].pack("Vv6")
        segment = [1, 5].pack("VV") + [0, 0x400000, 0x400000, 120, 120, 4096].pack("Q<6")
        File.binwrite("static", header + segment)'
    chmod +x static
    "$bin/malloctape" record -o f.raw.lz4 ./static >out 2>err || true
    says 'warning: ./static is statically linked.*it will not be recorded$' && ! says 'recording on'
}

# A linker of another name stands for that of another C library. It would take LD_PRELOAD, but must
# not get it.
warns_other_libc() {
    linker=$(ruby -e 'puts File.binread("/proc/self/exe")[%r{/lib[^\0]*/ld-linux[^\0]*}]')
    cp "$linker" ld-other.so &&
        echo '#include <stdio.h>
#include <stdlib.h>
int main(void) { puts(getenv("LD_PRELOAD") ? "preloaded" : "alone"); return 0; }' >other.c &&
        ${CC:-cc} -Wl,--dynamic-linker="$PWD/ld-other.so" -o other other.c || return 1
    "$bin/malloctape" record -o o.raw.lz4 ./other >out 2>err
    [ "$(cat out)" = alone ] && says 'warning: ./other has another C library.*it will not be recorded$'
}

# What the linker does not get is ours alone; a script goes by its interpreter, and $PATH is searched.
starts_other_libc() {
    local way keeps=/no/such/library.so
    printf '#!%s/other\n' "$PWD" >script && printf '#!%s/script\n' "$PWD" >script2 &&
        chmod +x script script2
    for way in execl execlp execle execv execve execvp execvpe execveat system popen vfork \
        posix_spawn posix_spawnp; do
        for program in ./other ./script2; do
            exits 0 record --follow -o "%e.%p.lz4" "$workloads/starts" $way $program &&
                [ "$(cat out)" = alone ] &&
                says 'it started [a-z2]*, which was not recorded: it has another C library' ||
                { echo "# $way $program"; return 1; }
        done
    done
    exits 0 record -o f.raw.lz4 "$workloads/starts" fexecve ./other && [ "$(cat out)" = alone ] &&
        says 'it started .*, which was not recorded: use --follow$' || return 1
    PATH=/no/such:$PWD exits 0 record --follow -o "%e.%p.lz4" "$workloads/starts" posix_spawnp other &&
        [ "$(cat out)" = alone ] || return 1
    # ld.so itself says that it does not find this one: so it is still there.
    LD_PRELOAD=$keeps exits 0 record --follow -o "%e.%p.lz4" "$workloads/starts" vfork ./other &&
        [ "$(cat out)" = preloaded ]
}

# The C compiler may be a command with arguments, and lack a sanitizer's library.
sanitized() {
    echo 'int main(void) { return 0; }' >sanitized.c &&
        ${CC:-cc} "-fsanitize=$1" -o "sanitized_$1" sanitized.c 2>err
}
refuses_sanitized() {
    for sanitizer in address thread; do
        exits 126 record -o f.raw.lz4 "./sanitized_$sanitizer" &&
            says "^malloctape record: ./sanitized_$sanitizer is built with a sanitizer.*not run\$" ||
            return 1
    done
    exits 0 record -o f.raw.lz4 ./sanitized_undefined && ! says warning
}

warns_setuid() {
    "$bin/malloctape" record -o f.raw.lz4 ./setuid >out 2>err || true
    says 'warning: ./setuid is setuid.*it will not be recorded$'
}

# --- the front end ---

helps() {
    exits 0 --help && prints '^usage: malloctape' && exits 0 help --help &&
        prints '^usage: malloctape' && exits 0 help help && prints '^usage: malloctape' && prints '^  record ' &&
        exits 0 help verify &&
        prints '^usage: malloctape verify'
}

# documents_options PAGE COMMAND... - whether the manual page has each option of the help that
# COMMAND prints, by its name and by its letter.
documents_options() {
    local page=$source_dir/$1
    shift
    "$@" >out && ruby -e 'page = File.read(ARGV[0]).gsub(/\\f./, "").delete("\\\\")
            .gsub(/Fl (\w) \| -/, "-\\1, --").gsub("Fl -", "--")
        options = STDIN.read.scan(/^ +(?:-[a-z], )?--[a-z-]+/).map(&:strip)
        missing = options.reject { |option| page.match?(/(?<!-)#{option}(?![a-z-])/) }
        puts missing.map { |option| "# no #{option}" }
        exit !options.empty? && missing.empty?' "$page" <out >missing && return
    cat missing
    return 1
}

all_helps() {
    "$bin/malloctape" --help >list
    for command in $(sed -n 's/^  \([a-z]*\)   .*/\1/p' list); do
        [[ $command =~ ^(help|order|replay)$ ]] || "$bin/malloctape" help "$command" || return 1
    done
}
manual_pages_have_options() {
    documents_options cli/malloctape.1 all_helps &&
        documents_options replay/replay.1 "$bin/replay" --help &&
        documents_options postprocess/postprocess.1 "$bin/postprocess" --help
}
tells_version() { exits 0 --version && prints '^malloctape (malloctape) [0-9]'; }

# A slip is named once, by record or by the library.
names_unknown_variables() {
    export TCMALLOC_TRACE_MAX_SECOND=5 TCMALLOC_TRACER=1
    exits 0 record -o f.raw.lz4 sh -c true && [ "$(grep -c 'there is no variable' err)" = 1 ] &&
        says '^malloctape record: there is no variable TCMALLOC_TRACE_MAX_SECOND$' &&
        exits 0 record -q -o f.raw.lz4 true && [ ! -s err ] && recorded f.raw.lz4 /bin/true &&
        says '^malloctape: there is no variable TCMALLOC_TRACE_MAX_SECOND$' &&
        [ "$(wc -l <err)" = 2 ] &&
        TCMALLOC_TRACE_OUTPT=f.raw.lz4 LD_PRELOAD=$tracing_library /bin/true 2>err &&
        says '^malloctape: there is no variable TCMALLOC_TRACE_OUTPT$'
    local failed=$?
    unset TCMALLOC_TRACE_MAX_SECOND TCMALLOC_TRACER
    return $failed
}

runs_programs_beside() {
    "$write_samples" raw_example >example && exits 0 order example example.lz4 &&
        says '^status  *complete' && exits 0 replay --engine null example.lz4 &&
        prints '^engine  *null' && exits 2 replay -e warp example.lz4 && says "there is no engine 'warp'" &&
        exits 2 compare -e warp example.lz4 && says "there is no engine 'warp'" &&
        exits 0 help order && prints '^Usage: malloctape order '
}
hints_at_salvage() {
    ruby -e 'text = File.binread("example")
        text[-60, 4] = "\xff\xff\xff\xff".b
        File.binwrite("damaged", text)' && exits 1 order damaged damaged.lz4 &&
        says 'damaged: to leave out what is damaged' && exits 5 order --salvage damaged damaged.lz4 &&
        ! says 'to leave out'
}

refuses_nonsense() {
    exits 2 && exits 2 nonsense && says "there is no command 'nonsense'" && exits 2 record &&
        says 'which program' &&
        exits 2 record --nonsense && says '^malloctape record: ' && exits 2 help nonsense
}

check 'a program with known calls: the dump prints exactly those' records_known_calls
check 'lz4 decodes the recording' lz4_decodes
check 'the exit status is that of the program' keeps_status
check 'arguments arrive word for word' keeps_arguments
check 'signals are passed on' passes_signals_on
check 'ended by a signal: how many events, and where' ends_of_a_signal
check 'a program that leaves by exit_group is finished' finishes 5 group 1
check 'the same with four threads' finishes 5 group 4
check 'a program that kills itself is finished' finishes 137 kill 4
check 'a program that crashes is finished' finishes 139 crash 1
check 'programs that are followed are finished' finishes_followed
check 'without record, info says what is known' says_what_is_known
check 'a program with a malloc of its own' own_malloc_is_noticed
check 'another malloc in one of several recordings' own_malloc_is_counted
check 'a program with a stub of malloc' stub_is_ours
check 'a C program: nothing but its own calls' has_only_its_own_calls
check 'only the first process speaks' only_the_first_speaks
check 'status 125: nothing was recorded' nothing_recorded
check 'standard input is the program'"'"'s' passes_stdin
check 'without -o, the file has the name of the program' default_name
check 'without -o, the directory of the program is left out' default_name_of_path
check 'without -o, nothing is replaced' default_name_never_replaces
check 'with -o, only recordings are replaced' replaces_only_recordings
check 'the first line says on which allocator; --quiet says nothing' says_on_which_allocator
if in_full_directory -m || in_full_directory -Urm; then
    unshared=-m
    in_full_directory -m || unshared=-Urm
    check 'TMPDIR without space' full_temporary_directory $unshared
else
    skip_test 'TMPDIR without space' 'no file system can be mounted'
fi
check '--seconds, --max-bytes' ends_by_its_limits
check '--stacks: of some, of all, and of none without it' records_stacks
check '--idle: until ctl says so' begins_idle
check '--control: ctl and top may ask meanwhile; reset begins another file' is_asked_meanwhile
check 'a program that changes its directory' survives_chdir
check 'a script' records_script
check 'the library comes first in LD_PRELOAD' puts_library_first
check 'MALLOCTAPE_LIBDIR says where the library is' finds_library_by_variable
check 'exit 127 when the program is not in PATH' not_found
check 'exit 127 when the path leads nowhere' path_not_found
check 'exit 126 when the program cannot be executed' not_executable
check 'exit 126 when the program is a directory' directory
if [ "$(id -u)" = 0 ]; then
    skip_test 'exit 127 when a directory of PATH may not be searched' 'root may search them all'
else
    check 'exit 127 when a directory of PATH may not be searched' path_may_not_be_searched
fi
check 'an output that is -' output_is_not_standard
check 'an output with an unknown letter after %' output_has_unknown_letter
check 'a missing library is named, with the places' library_missing
check 'a library that LD_PRELOAD cannot name' library_in_strange_place
check 'an output whose directory is missing' directory_missing
check 'an output that is a directory' output_is_directory
check 'an output that is a symbolic link to nothing' output_leads_nowhere
check 'a current directory that is gone' directory_is_gone
check 'a statically linked program: a warning' warns_static
check 'a program of another C library: a warning, and it runs' warns_other_libc
check 'a recorded program starts one of another C library' starts_other_libc
if sanitized address && sanitized thread && sanitized undefined; then
    check 'a program with AddressSanitizer or ThreadSanitizer: refused' refuses_sanitized
else
    skip_test 'a program with AddressSanitizer or ThreadSanitizer' 'the compiler has none'
fi
# Only root can make a program of somebody else that runs as he.
if cp /bin/true setuid && chown 65534 setuid 2>/dev/null && chmod 4755 setuid; then
    check 'a setuid program: a warning' warns_setuid
else
    skip_test 'a setuid program' 'only root can make one'
fi
check '--help and help COMMAND' helps
check 'the manual pages have the options of every help' manual_pages_have_options
check '--version' tells_version
check 'variables that do not exist are named' names_unknown_variables
check 'order and replay; an engine that does not exist' runs_programs_beside
check 'postprocess says how to go on after damage' hints_at_salvage
check 'exit 2 for what is no command, no option, no program' refuses_nonsense
# What is not followed is told: a program that was started, a fork that goes on; else nothing.
tells_what_it_does_not_follow() {
    record x.lz4 sh -c "$workloads/known_calls; true" &&
        says '^malloctape record: it started known_calls, which was not recorded: use --follow$' &&
        record x.lz4 sh -c "true | cat; exec $workloads/known_calls" &&
        says '^malloctape record: its process went on as known_calls and 1 more, which were not' &&
        record x.lz4 sh -c "$workloads/known_calls | cat | cat" &&
        says 'it started [a-z_]* and 2 more, which were not' &&
        record x.lz4 ruby -e 'Process.wait(fork { "x" * 1000 })' &&
        says 'it forked; its children (1) were not recorded' &&
        record x.lz4 "$workloads/known_calls" && ! says 'not recorded' &&
        exits 0 record --follow -o 'x.%p.lz4' -- sh -c "$workloads/known_calls; true" &&
        ! says 'not recorded'
}
check 'what it does not follow is told' tells_what_it_does_not_follow
check 'the recording can be verified' exits 0 verify known.raw.lz4
