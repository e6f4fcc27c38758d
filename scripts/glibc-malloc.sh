#!/bin/sh
# glibc-malloc.sh - watches the malloc of a running program from inside glibc, by bpftrace.
#
#   glibc-malloc.sh PID        until Ctrl-C, or the program's end; as root
#   glibc-malloc.sh -c CMD     starts a program, as 'ls -l', and watches it from its beginning
#   glibc-malloc.sh -n ...     prints the bpftrace program instead
#
# While the program runs: arenas and heaps that are made, thresholds that move, retries in another
# arena, mallopt(). At the end: the arena of each thread, how often threads waited for one and tried
# another, the bytes of each heap, the bytes from sbrk, the mmap threshold.
#
# Needs a glibc with probes (configure --enable-systemtap); Debian's has none, and then this says
# so. libmalloctape.so needs none: docs/inside.md. Needs bpftrace and readelf (binutils).
set -eu

fail() {
    echo "glibc-malloc.sh: $*" >&2
    exit 1
}

dry=false
if [ "${1-}" = -n ]; then
    dry=true
    shift
fi
how=-p
if [ "${1-}" = -c ]; then
    how=-c
    shift
fi
[ $# = 1 ] || fail "which process? usage: glibc-malloc.sh [-n] PID or -c 'CMD ARGS'"
if [ $how = -c ]; then
    file=$(command -v "${1%% *}") || fail "there is no program ${1%% *}"
    found=$(ldd "$file" 2>/dev/null | sed -n 's|^.*=> \(/[^ ]*/libc[.-][^ ]*so[^ ]*\) .*$|\1|p')
else
    [ -r "/proc/$1/maps" ] || fail "there is no process $1, or it is another user's"
    found=$(sed -n 's|^[^/]*\(/.*/libc[.-][^/]*so[^/]*\)$|\1|p' "/proc/$1/maps" | head -n 1)
fi
# GLIBC_MALLOC_FILE: a program that has the probes itself.
libc=${GLIBC_MALLOC_FILE-$found}
[ -n "$libc" ] || fail "${file:-process $1} has no glibc"

there=$(readelf -n "$libc" | awk '$1 == "Provider:" { provider = $2 }
    $1 == "Name:" && provider == "libc" && $2 ~ /^memory_/ { print $2 }' | sort -u)
[ -n "$there" ] || fail "$libc has no probes of malloc: it was built without them"

# Those of the probes below that are there; bpftrace refuses others.
probe() { # probe NAME ACTION
    ! echo "$there" | grep -qx "memory_$1" ||
        printf 'usdt:%s:libc:memory_%s { %s }\n' "$libc" "$1" "$2"
}

program() {
    echo 'BEGIN { @mmap_threshold = 131072; }'
    probe sbrk_more '@sbrk_bytes += arg1;'
    probe sbrk_less '@sbrk_bytes -= arg1;'
    probe heap_new 'printf("%d: new heap, %d bytes\n", tid, arg1); @heap_bytes[arg0] = arg1;'
    probe heap_more '@heap_bytes[arg0] = arg1;'
    probe heap_less '@heap_bytes[arg0] = arg1;'
    probe heap_free 'printf("%d: heap given back\n", tid); delete(@heap_bytes[arg0]);'
    probe arena_new 'printf("%d: new arena\n", tid); @arena_of[tid] = arg0;'
    probe arena_reuse 'printf("%d: arena shared with others\n", tid); @arena_of[tid] = arg0;'
    probe arena_reuse_free_list '@arena_of[tid] = arg0;'
    probe arena_reuse_wait '@waits[tid] = count();'
    probe arena_retry 'printf("%d: no room in its arena for %d bytes, tries another\n", tid, arg0);'
    for call in malloc calloc realloc memalign; do
        probe "${call}_retry" '@retries[tid] = count();'
    done
    probe mallopt 'printf("%d: mallopt(%d, %d)\n", tid, arg0, arg1);'
    probe mallopt_mmap_threshold '@mmap_threshold = arg0;'
    probe mallopt_free_dyn_thresholds 'printf("%d: thresholds: mmap %d bytes, trim %d bytes\n",
        tid, arg0, arg1); @mmap_threshold = arg0;'
}

if $dry; then
    program
else
    exec bpftrace $how "$1" -e "$(program)"
fi
