#!/bin/bash
# unknown_heap_test.sh - where the bytes of the allocator's heap are not known, info and report say
# so, and why.
set -eu
# shellcheck source=tests/cli_tap.sh
. "$(dirname "$0")/../cli_tap.sh"

front_end_library=$build_dir/lib/libmalloctape.so
libc=$(ldd "$workloads/fixed" | sed -n 's/.*libc.so.6 => \(\S*\).*/\1/p')
linker=$(ldd "$workloads/fixed" | sed -n 's/^\s*\(\/\S*\) (.*/\1/p')

# says_unknown RAW TEXT - in all of it.
says_unknown() {
    exits 0 info "$1" && prints "^its heap  *not known: $2\$" &&
        exits 0 info --json f.json "$1" && json f.json "j['heap_unknown'] == '$2'" &&
        exits 0 report "$1" && prints "^its heap is not known: $2\$" &&
        exits 0 report --json f.json "$1" && json f.json "j['heap_unknown'] == '$2'"
}

# A copy of the C library that says that it is another one. Its version may be the end of "NPTL
# VERSION"; the names of versions of symbols end in it, too.
later_glibc() {
    local own
    own=$("$linker" --version | sed -n '1s/.*version \([0-9.]*[0-9]\).*/\1/p')
    mkdir -p later && ruby -e '
        text = File.binread(ARGV[0])
        version = /(?<=[\0 ])#{Regexp.escape(ARGV[1])}(?=\0)/n
        text.gsub!(version, "2.99".ljust(ARGV[1].size, "\0")) || exit(1)
        File.binwrite("later/libc.so.6", text)' "$libc" "$own" &&
        TCMALLOC_TRACE_OUTPUT=later.lz4 "$linker" --library-path later \
            --preload "$front_end_library" "$workloads/fixed" 2>err &&
        says_unknown later.lz4 'the recorder knows only the variables of glibc 2.27 to 2.41'
}

other_allocator() {
    TCMALLOC_TRACE_OUTPUT=other.lz4 LD_PRELOAD="$front_end_library:$build_dir/tests/tools/pairs_stub.so" \
        "$workloads/fixed" 2>err &&
        says_unknown other.lz4 'this allocator has no statistics that can be read'
}

is_known() {
    TCMALLOC_TRACE_OUTPUT=known.lz4 LD_PRELOAD="$front_end_library" "$workloads/fixed" 2>err &&
        exits 0 info known.lz4 && ! prints 'its heap' && exits 0 report known.lz4 &&
        ! prints 'its heap'
}

plan 3
check 'a glibc that is too new' later_glibc
check 'an allocator that nobody knows' other_allocator
check 'glibc as it is: nothing' is_known
