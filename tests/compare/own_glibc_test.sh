#!/bin/bash
# own_glibc_test.sh - a C library of one's own, as an entry of compare and of report --under: the
# replay is started through the dynamic linker beside it.
set -eu
# shellcheck source=tests/cli_tap.sh
. "$(dirname "$0")/../cli_tap.sh"

"$build_dir/tests/tools/make_instructions" churn 20000 100 >churn
libc=$(ldd "$bin/replay" | sed -n 's/.*libc.so.6 => \(\S*\).*/\1/p')
linker=$(ldd "$bin/replay" | sed -n 's/^\s*\(\/\S*\) (.*/\1/p')
mkdir -p installed built/elf alone
cp -L "$libc" installed/libc.so.6
cp -L "$libc" built/libc.so.6
cp -L "$libc" alone/libc.so.6
cp -L "$linker" installed/ld-linux-x86-64.so.2
cp -L "$linker" built/elf/ld-linux-x86-64.so.2

# Which file a row's malloc came from.
uses_own() {
    exits 0 compare churn -r 1 --json f.json \
        -a "glibc,glibc:$PWD/installed/libc.so.6,glibc:$PWD/built/libc.so.6" &&
        json f.json 'j["allocators"].map { |row| row["reports"][0]["allocator_path"] } ==
            ["'"$(echo "$libc")"'", Dir.pwd + "/installed/libc.so.6", Dir.pwd + "/built/libc.so.6"]'
}

has_settings() {
    exits 0 compare churn -r 1 --json f.json \
        -a "glibc:$PWD/installed/libc.so.6:GLIBC_TUNABLES=glibc.malloc.arena_max=1" &&
        json f.json 'j["allocators"][0]["reports"][0]["allocator_path"] == Dir.pwd + "/installed/libc.so.6" &&
            j["allocators"][0]["settings"] == { "GLIBC_TUNABLES" => "glibc.malloc.arena_max=1" }'
}

reports_under() {
    exits 0 report churn --under "glibc:$PWD/installed/libc.so.6" &&
        prints "^under glibc:$PWD/installed/libc.so.6, "
}

tells_missing() {
    exits 1 compare churn -r 1 -a "glibc:$PWD/alone/libc.so.6,glibc:$PWD/none/libc.so.6" &&
        prints "no ld-linux-x86-64.so.2 beside $PWD/alone/libc.so.6" &&
        prints "$PWD/none/libc.so.6: No such file or directory"
}

if [ -n "$sanitized" ]; then
    plan 1
    skip_test "a C library of one's own" 'a sanitizer has its own allocator'
    exit
fi
plan 4
check "a C library of one's own is a row" uses_own
check 'with settings' has_settings
check 'report --under' reports_under
check 'what is missing is told' tells_missing
