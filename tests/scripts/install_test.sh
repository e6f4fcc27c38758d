#!/bin/bash
# install_test.sh - what `make install` puts where, that it works there, and that `make uninstall`
# leaves nothing; and what configure says to options of the predecessor.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

root=$scratch/root

installs() {
    make -C "$build_dir" install prefix="$root" >make.out 2>err &&
        (cd "$root/lib" && find . -type f | sort) >out && diff out - <<'LIST'
./libmalloctape.so
./libtcmalloc_minimal_tracing.so
./malloctape/libtcmalloc_minimal.so
LIST
}

# Another package's library of the same name lies beside ours.
works() {
    echo 'no library' >"$root/lib/libtcmalloc_minimal.so"
    "$root/bin/malloctape" record -o t.lz4 -- "$workloads/fixed" 2>err &&
        "$root/bin/malloctape" record --allocator=program -o p.lz4 -- "$workloads/fixed" 2>err &&
        [ "$(objects t.lz4 777)" = 1 ] && [ "$(objects p.lz4 777)" = 1 ] &&
        "$root/bin/malloctape" compare --runs 1 --allocators tcmalloc t.lz4 >out 2>err &&
        grep -q '^tcmalloc ' out || return 1
    rm "$root/lib/libtcmalloc_minimal.so"
}

uninstalls() {
    make -C "$build_dir" uninstall prefix="$root" >make.out 2>err && find "$root" ! -type d >out &&
        [ ! -s out ]
}

# configured OPTION... - what configure says of them, before it looks for anything.
configured() {
    mkdir -p configured
    (cd configured && "$source_dir/configure" CC=/none "$@") >out 2>err || true
}

options_are_always_so() {
    configured --enable-minimal --enable-trace-compression --disable-static
    grep -q -- '--enable-minimal is always so: ' out &&
        grep -q -- '--enable-trace-compression is always so: ' out &&
        grep -q -- '--disable-static is always so: ' out && ! grep -q 'unrecognized' out err
}

options_cannot_be_otherwise() {
    configured --enable-static --disable-minimal
    grep -q 'WARNING: it cannot be otherwise than --disable-static: ' err &&
        grep -q 'WARNING: it cannot be otherwise than --enable-minimal: ' err
}

plan 5
check 'the libraries that record lie in the library directory' installs
if [ -n "$sanitized" ]; then
    skip_test 'what is installed works' 'a sanitizer has its own allocator'
else
    check 'what is installed works' works
fi
check 'uninstall leaves nothing' uninstalls
check 'options that ask for what is so anyway' options_are_always_so
check 'options that ask for something else' options_cannot_be_otherwise
