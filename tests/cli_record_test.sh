#!/bin/bash
# cli_record_test.sh - `malloctape record` runs a program as it is, but recorded, and says beforehand when that
# cannot work; and the front end's own help and errors.
set -euo pipefail

. "$(dirname "$0")/cli_tap.sh"

plan 29

# --- the program ---

# Objects are numbered from 1 by the program, and by the recording from what the start of the process had made; what ends
# is told by its place.
calls_between_marks() {
    "$bin/malloctape" dump --only-calls "$1" | ruby -ne '
        $on ||= $_.start_with?("malloc 424242 ")
        next unless $on
        born = $_[/-> 0:(\d+)@/, 1]
        $first ||= born.to_i
        ($at ||= {})[:born] = born.to_i - $first + 1 if born
        text = $_.sub(/ @(\d+)/) { " #{$at[$1]}" }.sub(/-> 0:\d+@(\d+)/) { "-> #{$at[$1] = $at[:born]}" }
        puts text
        ended ||= text[/^malloc 434343 -> (.*)/, 1]
        $last ||= ended
        exit if $last && text == "free #{$last}\n"'
}

records_known_calls() {
    record known.raw.lz4 "$workloads/known_calls" -p && calls_between_marks known.raw.lz4 >out && diff printed out
}

keeps_status() { exits 7 record -o f.raw.lz4 sh -c 'exit 7'; }
keeps_arguments() {
    exits 0 record -o f.raw.lz4 -- printf '<%s>' 'a  b' '*' -o '' && [ "$(cat out)" = '<a  b><*><-o><>' ]
}
takes_the_place() {
    "$bin/malloctape" record -o f.raw.lz4 sh -c 'echo $$' >out 2>err &
    wait $!
    [ "$(cat out)" = "$!" ]
}
passes_stdin() { echo hello | "$bin/malloctape" record -o f.raw.lz4 cat >out 2>err && [ "$(cat out)" = hello ]; }

default_name() {
    exits 0 record true && says "recording to $PWD/true.raw.lz4" && [ -s true.raw.lz4 ]
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
    MALLOCTAPE_LIBDIR=$PWD/libraries "$bin/malloctape" record -o f.raw.lz4 sh -c 'echo "$LD_PRELOAD"' >out 2>err &&
        [ "$(cat out)" = "$(realpath libraries)/libtcmalloc_minimal_tracing.so" ]
}

# --- what cannot work ---

not_found() {
    exits 127 record no-such-program-anywhere && says '^malloctape record: no-such-program-anywhere: not found$'
}
path_not_found() { exits 127 record ./no-such-program && says 'not found$'; }
not_executable() { echo plain >plain-file && exits 126 record ./plain-file && says 'cannot be executed$'; }
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
    exits 2 record -o %q true && says '^malloctape record: -o %q: a % that' && [ ! -e %q ]
}

library_missing() {
    (export MALLOCTAPE_LIBDIR=/nonexistent && exits 1 record true) &&
        says 'libtcmalloc_minimal_tracing.so not found; looked in /nonexistent'
}

library_in_strange_place() {
    mkdir -p 'with space'
    cp "$tracing_library" 'with space/'
    (export MALLOCTAPE_LIBDIR="$PWD/with space" && exits 1 record true) && says 'LD_PRELOAD cannot hold'
}

directory_missing() { exits 1 record -o missing/f.raw.lz4 true && says 'cannot write into .*/missing: No such'; }
output_is_directory() { mkdir -p elsewhere && exits 1 record -o elsewhere true && says 'elsewhere is a directory'; }

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
    says 'warning: ./static is linked statically.*nothing will be recorded$'
}

warns_setuid() {
    "$bin/malloctape" record -o f.raw.lz4 ./setuid >out 2>err || true
    says 'warning: ./setuid runs with privileges of its own.*nothing will be recorded$'
}

# --- the front end ---

helps() {
    exits 0 --help && prints '^usage: malloctape' && prints '^  record ' && exits 0 help verify &&
        prints '^usage: malloctape verify'
}
tells_version() { exits 0 --version && prints '^malloctape (malloctape) [0-9]'; }

refuses_nonsense() {
    exits 2 && exits 2 nonsense && says "there is no command 'nonsense'" && exits 2 record && says 'which program' &&
        exits 2 record --nonsense && says '^malloctape record: ' && exits 2 help nonsense
}

check 'a program with known calls: the dump prints exactly those' records_known_calls
check 'lz4 decodes the recording' lz4_decodes
check 'the exit status is that of the program' keeps_status
check 'arguments arrive word for word' keeps_arguments
check 'the program takes the same process' takes_the_place
check 'standard input is the program'"'"'s' passes_stdin
check 'without -o, the file has the name of the program' default_name
check 'without -o, the directory of the program is left out' default_name_of_path
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
check 'a statically linked program: a warning' warns_static
# Only root can make a program of somebody else that runs as he.
if cp /bin/true setuid && chown 65534 setuid 2>/dev/null && chmod 4755 setuid; then
    check 'a setuid program: a warning' warns_setuid
else
    skip_test 'a setuid program' 'only root can make one'
fi
check '--help and help COMMAND' helps
check '--version' tells_version
check 'exit 2 for what is no command, no option, no program' refuses_nonsense
check 'the recording can be verified' exits 0 verify known.raw.lz4
