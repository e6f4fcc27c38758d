#!/bin/bash
# touched_test.sh - which pages of large objects a program has touched is recorded, and a replay touches
# these and no others.
set -eu
# shellcheck source=tests/cli_tap.sh
. "$(dirname "$0")/../cli_tap.sh"

lib=$build_dir/lib
libraries='libmalloctape.so libtcmalloc_minimal_tracing.so'

# ordered NAME - the recording, to NAME.p and NAME.dump.
ordered() {
    exit_status "$bin/postprocess" -q "$1" "$1.p" 2>err
    { [ "$status" = 0 ] || [ "$status" = 3 ]; } && "$bin/malloctape" dump "$1.p" >"$1.dump"
}

# record_sparse LIBRARY WAY
record_sparse() {
    rm -f sparse.raw*
    env TCMALLOC_TRACE_OUTPUT=sparse.raw LD_PRELOAD="$lib/$1" "$workloads/sparse" "$2" 2>err &&
        ordered sparse.raw
}

# has_touched BYTES LEAST MOST - an object of so many bytes begins, of which so many pages were touched.
has_touched() {
    ruby -e 'bytes, least, most = ARGV.map(&:to_i)
             pages = 0
             seen = $stdin.each_line.any? do |line|
               touched = line[/ touched \d+ (\d+)$/, 1]
               pages += touched.to_i if touched
               found = pages.between?(least, most) && line.match?(/ #{bytes}( |$)/)
               pages = 0 unless touched
               found
             end
             exit seen' "$@" <sparse.raw.dump
}

# peak ARGUMENTS... - MiB at the peak of a replay.
peak() {
    "$bin/replay" -q --json=replay.json "$@" sparse.raw.p >out 2>err &&
        ruby -rjson -e 'puts JSON.parse(File.read("replay.json"))["peak_net_rss_bytes"] >> 20'
}

# is_sparse LIBRARY WAY - all that is touched is 2 MiB; small objects are 2 MiB, too.
is_sparse() {
    record_sparse "$1" "$2" && has_touched 3221225472 510 530 || return 1
    for engine in switch threads; do
        [ "$(peak --engine="$engine")" -lt 12 ] || return 1
    done
    exits 0 verify sparse.raw sparse.raw.p
}

# It is said how much was left alone, and nobody wonders at that.
is_said() {
    record_sparse libmalloctape.so kept && "$bin/replay" --json=replay.json sparse.raw.p >out 2>err &&
        json replay.json 'j["untouched_bytes"].between?(3_200_000_000, 3_221_230_000)' &&
        json replay.json 'j["warnings"].none? { |one| one["key"] == "rss_below_live" }'
}

moves() {
    is_sparse "$1" moved && has_touched 4026531840 510 530
}

# It is killed, when it has been looked at: within its time, unless the machine keeps the writer from it.
is_killed() {
    for _ in 1 2 3 4 5; do
        rm -f sparse.raw* out
        env TCMALLOC_TRACE_OUTPUT=sparse.raw LD_PRELOAD="$lib/$1" "$workloads/sparse" waits >out 2>err &
        local program=$!
        wait_until prints ready || return 1
        kill -9 "$program"
        wait "$program" 2>/dev/null || true
        ordered sparse.raw || return 1
        if has_touched 402653184 400 530; then break; fi
    done
    has_touched 402653184 400 530 && [ "$(peak)" -lt 24 ]
}

# Not every one of many is looked at, and all are taken to be like those that are.
are_often() {
    record_sparse "$1" often && exits 0 dump sparse.raw &&
        [ "$(grep -c ' mapping touched ' out)" -gt 100 ] &&
        [ "$(grep -c ' mapping touched ' out)" -lt 19000 ] &&
        [ "$(grep -c ' touched 0 2$' sparse.raw.dump)" -gt 19000 ] && [ "$(peak)" -lt 12 ]
}

# Each half of four sizes.
are_again() {
    record_sparse "$1" again && exits 0 verify sparse.raw sparse.raw.p || return 1
    for mib in 1 2 3 4; do
        has_touched $((mib << 20)) $((mib * 128)) $((mib * 128 + 2)) || return 1
    done
}

# Through a pipe nothing is read twice: all pages are touched.
through_a_pipe() {
    record_sparse libmalloctape.so again &&
        "$bin/postprocess" -q /dev/stdin piped.p < <(cat sparse.raw) 2>err &&
        exits 0 dump piped.p && ! prints ' touched ' && prints ' malloc 1048576'
}

# A part of a trace has what it has of it.
in_parts() {
    record_sparse libmalloctape.so freed && exits 0 cut sparse.raw -o part.p --sizes 100000- &&
        exits 0 dump part.p && prints ' touched '
}

# Of fewer calls, too, made by malloc and by realloc.
thinned() {
    record_sparse libmalloctape.so shared && exits 0 cut sparse.raw -o part.p --thin 10 &&
        exits 0 dump part.p &&
        ruby -e 'large = $stdin.each_line.each_cons(2).select { |_, call| call =~ / (m|re)alloc\w*( r\d+)? \d{6,} / }
                 exit large.size > 100 && large.all? { |before, _| before.include?(" touched ") }' <out
}

# Others begin where large objects have been, and still all is in order.
are_shared() {
    record_sparse "$1" shared && exits 0 verify sparse.raw sparse.raw.p
}

# What tcmalloc frees on its fast path is not watched, and not taken to be alive.
has_classes() {
    record_sparse libtcmalloc_minimal_tracing.so even && exits 0 dump sparse.raw &&
        ! prints ' mapping touched '
}

# What calloc() returns is zero: in new memory, in that of objects that were freed, in both, in what was
# swapped out (if the system swaps), and where the program has mapped a file; and errno stays. Of new memory the recorder's tcmalloc leaves pages alone.
cat >cleared.c <<'CODE'
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#define MIB ((size_t)1 << 20)
#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif
static int is_zero(size_t bytes)
{
    errno = 77;
    const char *object = calloc(1, bytes);
    if (errno != 77 || !object) return 0;
    for (size_t i = 0; i < bytes; i++)
        if (object[i]) return 0;
    memset((char *)object, 1, bytes);
    madvise((char *)object, bytes, MADV_PAGEOUT);
    free((char *)object);
    return 1;
}
static int is_zero_where_a_file_was(const char *name)
{
    const int file = open(name, O_RDWR);
    char *object = memalign(65536, 8 * MIB);
    memset(object, 1, 8 * MIB);
    if (mmap(object + MIB, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, 0) != object + MIB)
        return 0;
    free(object);
    return is_zero(8 * MIB) && is_zero(8 * MIB + 4096);
}
int main(int count, char **words)
{
    char *volatile sparse = calloc(64, MIB);
    sparse[5 * MIB] = 1;
    if (!is_zero(300000) || !is_zero(MIB) || !is_zero(3 * MIB) || !is_zero(2 * MIB - 7)) return 1;
    return count > 1 && !is_zero_where_a_file_was(words[1]) ? 2 : 7;
}
CODE
${CC:-cc} -O1 -o cleared cleared.c
tr '\0' '\377' </dev/zero | head -c 1048576 >ones

are_cleared() {
    local all
    rm -f sparse.raw*
    exit_status env TCMALLOC_TRACE_OUTPUT=sparse.raw LD_PRELOAD="$lib/libtcmalloc_minimal_tracing.so" \
        ./cleared ones 2>err
    [ "$status" = 7 ] && ordered sparse.raw && has_touched 67108864 1 3 || return 1
    all=$(LD_PRELOAD="$lib/libtcmalloc_minimal.so" peak) && [ "$all" -gt 64 ] &&
        [ "$(LD_PRELOAD="$lib/libtcmalloc_minimal.so" peak --uncleared)" -lt $((all - 60)) ] &&
        json replay.json 'j["uncleared_objects"] == 7'
}

plan 20
for library in $libraries; do
    for way in freed passed kept; do
        check "$library: a sparse object, $way" is_sparse "$library" "$way"
    done
    check "$library: a sparse object in a program that is killed" is_killed "$library"
    check "$library: threads share the memory of large objects" are_shared "$library"
done
check "what calloc() returns is zero, and the recorder's tcmalloc leaves new pages alone" are_cleared
check 'a sparse object, zeroed' is_sparse libmalloctape.so zeroed
check 'a sparse object, moved' moves libmalloctape.so
check 'what is left alone is said' is_said
check 'many objects, of which some are looked at' are_often libmalloctape.so
check 'objects of several sizes at one place' are_again libmalloctape.so
check 'objects with a class of tcmalloc' has_classes
check 'what comes through a pipe' through_a_pipe
check 'what is cut out' in_parts
check 'what is thinned' thinned
