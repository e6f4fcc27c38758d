#!/bin/bash
# capture_symbols_test.sh - the capture core, a guest in other people's programs, uses nothing but
# what capture_symbols.txt lists, and never a function that allocates.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

list=$source_dir/tests/tracing/capture_symbols.txt
objects=$build_dir/gperftools-build/2.16/capture
# What allocates, or may: never to be listed.
allocating='(malloc|free|calloc|realloc|memalign|valloc|pvalloc|.*_memalign|aligned_alloc'
allocating="$allocating|reallocarray|strdup|strndup|asprintf|vasprintf|.*printf"
allocating="$allocating|f(open|dopen|write|puts|putc|close)"
allocating="$allocating|opendir|getline|getdelim|setenv|putenv|unsetenv|atexit|qsort|dl(open|error)"
allocating="$allocating|pthread_create|sem_open|_Zn[wa].*|_Zd[la].*|tc_.*|LZ4_create.*"
allocating="$allocating|XXH3_createState|syslog|perror|strerror|exit|localtime|getaddrinfo"
allocating="$allocating|__libc_.*alloc.*)"

# Of all objects of a list of directories: what is used and not defined among them.
imports() {
    nm --defined-only "$@" | awk 'NF == 3 && $2 != "r" { print $3 }' | sort -u >defined
    nm -u "$@" | awk 'NF == 2 { print $2 }' | sort -u | comm -23 - defined
}

mapfile -t capture_objects < <(find "$objects" -name '*.o' | sort)

capture_imports() { imports "${capture_objects[@]}"; }

# The front end for any allocator is such a guest, too.
front_end_imports_no_more() {
    imports "${capture_objects[@]}" "$build_dir"/preload-build/{allocators,tracing/preload}/*.o >imported_by_both &&
        comm -23 imported_by_both allowed |
        sed 's/$/ is not in tests\/capture_symbols.txt/' >out
    [ ! -s out ]
}

all_sources_compiled() {
    make -s -C "$build_dir" -f - print-capture-sources >sources 2>err <<'MAKE'
include Makefile
print-capture-sources:
	@echo $(capture_files)
MAKE
    # shellcheck disable=SC2013 # words are what is wanted
    for source in $(cat sources); do
        [ -e "$objects/${source%.c}.o" ] || return 1
    done
    # Nothing else lies there, left from earlier.
    [ "$(wc -w <sources)" = "$(find "$objects" -name '*.o' | wc -l)" ]
}

listed_with_reason() {
    ! grep -v -e '^#' -e '^$' "$list" | grep -v -E '^[A-Za-z_0-9]+ +[A-Za-z].{9,}$' >out
}

none_is_new() {
    capture_imports >imported && cut -d ' ' -f 1 "$list" | grep -v -e '^#' -e '^$' |
        sort -u >allowed
    comm -23 imported allowed | sed 's/$/ is not in tests\/capture_symbols.txt/' >out
    [ -s imported ] && [ ! -s out ]
}

none_is_left_over() {
    sort -u imported imported_by_both | comm -13 - allowed |
        sed 's/$/ is in tests\/capture_symbols.txt, but nobody uses it/' >out
    [ ! -s out ]
}

none_allocates() {
    cat imported allowed | grep -x -E "$allocating" >out && return 1
    return 0
}

# Prints the functions of an object that make system calls, but syscall(): that call is the
# program's own.
system_calls() {
    objdump -d "$1" | awk '/^[0-9a-f]+ <.*>:$/ { function_name = $2 }
        /\tsyscall/ && function_name != "<syscall>:" { print function_name }'
}

# A fake system (tests/fake_os.c) can stand in for os.h only if nobody passes it by.
only_os_asks_the_system() {
    local object
    find "$objects"/tracing "$build_dir/preload-build" -name '*.o' ! -name 'os_linux*' >others
    while read -r object; do
        system_calls "$object" | sed "s|^|# $object makes a system call in |"
        nm -u "$object" | grep -w -E 'clone|syscall|v?fork|ptrace|mmap|munmap|open|write' &&
            echo "# of $object"
    done <others >out 2>err
    [ -s others ] && [ ! -s out ] && objdump -d "$objects/tracing/os/os_linux.o" | grep -q -P '\tsyscall'
}

one_more_is_noticed() {
    printf 'void *malloc(unsigned long);\nvoid *other(void) { return malloc(1); }\n' >other.c
    ${CC:-cc} -c -fno-builtin -o other.o other.c 2>err || return 1
    imports "${capture_objects[@]}" other.o | comm -13 imported - >out && [ "$(cat out)" = malloc ] &&
        grep -q -x -E "$allocating" out
}

# probes_of LIBRARY - their names.
probes_of() { readelf -n "$1" 2>err | sed -n '/Provider: malloctape/{n;s/.*Name: //p;}' | sort -u; }

# Nobody pays for a probe that nobody watches: where it is there is a nop.
probes_are_nops() {
    local library address
    for library in "$tracing_library" "$build_dir/lib/libmalloctape.so"; do
        readelf -n "$library" >notes 2>err
        for address in $(sed -n 's/.*Location: \(0x[0-9a-f]*\),.*/\1/p' notes); do
            objdump -d --start-address="$address" --stop-address=$((address + 1)) "$library" |
                grep -q '	90  *	nop' || { echo "# $address in $library"; return 1; }
        done
    done
    # As the table has it, the last column too.
    sed -n 's/^| `\([a-z_]*\)` |.*| \([a-z]*\) |$/\1 \2/p' "$source_dir/docs/inside.md" |
        sort >listed && [ -s listed ] && cut -d ' ' -f 1 listed >all &&
        sed -n 's/ both$//p' listed >both && probes_of "$tracing_library" | cmp - all &&
        probes_of "$build_dir/lib/libmalloctape.so" | cmp - both
}

plan 9
check 'every source of the capture core has been compiled' all_sources_compiled
check 'each symbol is listed with its reason' listed_with_reason
check 'no symbol is new' none_is_new
check 'no symbol is new in the front end for any allocator' front_end_imports_no_more
check 'no listed symbol is unused' none_is_left_over
check 'no function allocates' none_allocates
check 'a use of malloc would be noticed' one_more_is_noticed
check 'system calls are made by os_linux only' only_os_asks_the_system
if grep -q 'define HAVE_SYS_SDT_H' "$build_dir/malloctape_config.h"; then
    check 'probes are nops' probes_are_nops
else
    skip_test 'probes are nops' 'systemtap-sdt-dev is missing'
fi
