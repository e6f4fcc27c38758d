#!/bin/bash
# front_end_test.sh - programs that call the allocator before anybody is ready for it, that free
# nothing, or that have another one in front: none is harmed, and what is recorded is right.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

resolver=$workloads/resolver

# An IFUNC resolver allocates before thread-local storage has its values; main() frees its object.
resolves() {
    rm -f raw.lz4*
    exit_status env "$@" LD_PRELOAD="$tracing_library" "$resolver" >out 2>err
    [ "$status" = 7 ] && [ ! -s err ] || return 1
    exit_status env "$@" TCMALLOC_TRACE_OUTPUT=raw.lz4 LD_PRELOAD="$tracing_library" "$resolver" \
        >out 2>err
    [ "$status" = 7 ] && [ "$(objects raw.lz4 777)" = 20 ] && verified raw.lz4 0
}

# info_number FILE NAME - as its JSON has it.
info_number() { "$bin/malloctape" info --json - "$1" 2>err | sed -n "s/^  \"$2\": \([0-9]*\),*\$/\1/p"; }

counts_frees_of_null() {
    rm -f none.lz4 many.lz4
    recorded none.lz4 "$resolver" 0 || [ $? = 7 ] || return 1
    recorded many.lz4 "$resolver" 1000 || [ $? = 7 ] || return 1
    [ $(($(info_number many.lz4 free_null) - $(info_number none.lz4 free_null))) = 2000 ] &&
        [ "$(info_number many.lz4 events)" = "$(info_number none.lz4 events)" ]
}

# What a shell has, it adds up; recorded it has that and no more which is not the recorder's, whose
# library has some 400 KiB. Sums of areas are exact, which RSS is not. Of files it has what the system
# keeps of them, some hundred KiB more or less from run to run, and at its end mostly 100 KiB less than
# where it adds up: one of a few runs must be right.
knows_its_own_memory() {
    local alone=$plain_library net kib
    # shellcheck disable=SC2016
    local adds='while read -r key kib _; do [ "$key" != Rss: ] || sum=$((sum + kib)); done </proc/self/smaps; echo $sum'
    [ "$front_end" = tcmalloc ] || alone=
    for _ in 1 2 3 4 5; do
        rm -f own.lz4*
        kib=$(LD_PRELOAD=$alone bash -c "$adds") && recorded own.lz4 bash -c "$adds" &&
            net=$("$bin/malloctape" dump own.lz4 | sed -n -e 's/.* residency end .*/0/p' \
                -e 's/.* area .* resident \([0-9]*\) .*/+ \1/p' \
                -e 's/.* tick .* recorder \([0-9]*\) .*/- \1 \/ 1024/p' | paste -s -d ' ') &&
            net=$((${net##*/ 1024 0})) && echo "# $kib KiB alone, $net KiB recorded" || return 1
        [ $((net - kib)) -ge 250 ] || [ $((kib - net)) -ge 400 ] || return 0
    done
    return 1
}

# The C++ runtime is looked for while the list of libraries changes.
unloads() {
    rm -f raw.lz4*
    exit_status timeout 300 env TCMALLOC_TRACE_OUTPUT=raw.lz4 LD_PRELOAD="$tracing_library" \
        "$workloads/unload" 20000 >out 2>err
    [ "$status" = 7 ] && verified raw.lz4 0
}

# It cannot be read there how many threads are left, nor, of which a line is said, what is resident.
ends_without_proc() {
    rm -f raw.lz4*
    # shellcheck disable=SC2016
    exit_status timeout 300 unshare -m sh -c 'umount -l /proc && exec "$@"' sh \
        env TCMALLOC_TRACE_OUTPUT=raw.lz4 LD_PRELOAD="$tracing_library" "$resolver" 1 leave \
        >out 2>err
    [ "$status" = 0 ] && sed -i '/^malloctape: what is resident cannot be recorded: /d' err &&
        one_line 'raw.lz4: ' && [ "$(objects raw.lz4 777)" = 20 ] && verified raw.lz4 0
}

# The library of gcc's ThreadSanitizer does not survive an allocator in front of it.
refuses_thread_sanitizer() {
    exit_status env LD_PRELOAD="$tracing_library" ./sanitized >out 2>err
    [ "$status" = 126 ] && [ "$(wc -l <err)" = 1 ] && grep -q 'ThreadSanitizer cannot run' err
}
runs_thread_sanitizer() {
    exit_status env LD_PRELOAD="$tracing_library" ./sanitized >out 2>err
    [ "$status" = 7 ] && [ ! -s err ]
}
# unrecorded PROGRAM - it runs as ever.
unrecorded() {
    rm -f raw.lz4*
    exit_status recorded raw.lz4 "$1"
    [ "$status" = 7 ] && one_line 'not recording: ThreadSanitizer watches this program' &&
        [ ! -e raw.lz4 ]
}

# A library that is loaded with RTLD_DEEPBIND has malloc and free from the C library, so it would give
# that one objects of tcmalloc. It is found by the search path of the program, which calls dlopen().
binds_deep() {
    rm -f raw.lz4*
    exit_status env TCMALLOC_TRACE_OUTPUT=raw.lz4 LD_PRELOAD="$tracing_library" ./deep >out 2>err
    [ "$status" = 7 ] && verified raw.lz4 0 && [ "$(objects raw.lz4 777)" = 1 ] &&
        [ "$(objects raw.lz4 888)" = "$1" ]
}
mkdir -p plug-ins
cat >plug_in.c <<'CODE'
#include <stdlib.h>
void *plug_in(void *object) { free(object); return malloc(888); }
CODE
cat >deep.c <<'CODE'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
int main(void)
{
    void *file = dlopen("plug_in.so", RTLD_NOW | RTLD_DEEPBIND);
    void *(*plug_in)(void *);
    if (!file) return 1;
    *(void **)&plug_in = dlsym(file, "plug_in");
    free(plug_in(malloc(777)));
    return 7;
}
CODE
${CC:-cc} -O0 -shared -fPIC -o plug-ins/plug_in.so plug_in.c
# shellcheck disable=SC2016
${CC:-cc} -O0 -o deep deep.c -ldl -Wl,--enable-new-dtags,-rpath,'$ORIGIN/plug-ins'

plan 10
check 'malloc in an IFUNC resolver of the program' resolves TESTED=1
check 'the same, bound at once' resolves LD_BIND_NOW=1
check 'frees of NULL are counted, and are no events' counts_frees_of_null
check "memory that is not the recorder's" knows_its_own_memory
check 'operator new fails while a library is unloaded' unloads
check 'a library that is loaded with RTLD_DEEPBIND' binds_deep "$([ "$front_end" = tcmalloc ] && echo 1 || echo 0)"
if unshare -m sh -c 'umount -l /proc' 2>/dev/null; then
    check 'without /proc, all threads end by the system call alone' ends_without_proc
else
    skip_test 'without /proc, all threads end by the system call alone' 'needs root'
fi
echo 'int main(void) { return 7; }' >sanitized.c
if ! ${CC:-cc} -fsanitize=thread -o sanitized sanitized.c 2>err ||
    ! readelf -d sanitized | grep -q libtsan; then
    skip_test 'ThreadSanitizer' 'the compiler has none that is a library'
elif [ "$front_end" = tcmalloc ]; then
    check 'ThreadSanitizer: refused, with a message' refuses_thread_sanitizer
else
    check 'ThreadSanitizer: runs' runs_thread_sanitizer
fi
if [ ! -e sanitized ] || [ "$front_end" = tcmalloc ]; then
    skip_test 'ThreadSanitizer: is not recorded' 'no such program, or it is refused'
else
    check 'ThreadSanitizer: is not recorded' unrecorded ./sanitized
fi
if ! clang -fsanitize=thread -o linked sanitized.c 2>err; then
    skip_test 'ThreadSanitizer, linked statically: is not recorded' 'no clang that has it'
else
    check 'ThreadSanitizer, linked statically: is not recorded' unrecorded ./linked
fi
