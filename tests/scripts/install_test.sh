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
./pkgconfig/malloctape.pc
LIST
}

# What others may call so, too, has malloctape in its name; and so has its manual page.
names_are_ours() {
    (cd "$root" && ls bin share/man/man1) >out && diff out - <<'LIST'
bin:
malloctape
malloctape-bump-pipes
malloctape-convert
malloctape-keep
malloctape-postprocess
malloctape-replay
malloctape-sweep

share/man/man1:
malloctape-advise.1
malloctape-bump-pipes.1
malloctape-change.1
malloctape-compare.1
malloctape-convert.1
malloctape-ctl.1
malloctape-cut.1
malloctape-dump.1
malloctape-export.1
malloctape-import.1
malloctape-info.1
malloctape-order.1
malloctape-postprocess.1
malloctape-record.1
malloctape-replay.1
malloctape-report.1
malloctape-sweep.1
malloctape-top.1
malloctape-verify.1
malloctape.1
LIST
}

# `man malloctape-record` finds a page, and `malloctape help` names documents that are there.
commands_have_pages() {
    "$root/bin/malloctape" help >out || return 1
    documents=$(sed -n 's/^FORMAT.md 4.1, are in \(.*\)\.$/\1/p' out)
    [ -d "$documents" ] || [ "$documents" = 'the directories stream, replay and docs of the source' ] &&
        sed -n 's/^  \([a-z]*\)  .*/\1/p' out | grep -vx help >commands && [ "$(wc -l <commands)" -gt 12 ] &&
        while read -r command; do
            [ -s "$root/share/man/man1/malloctape-$command.1" ] || { echo "# $command"; return 1; }
        done <commands
}

# Another package's library of the same name lies beside ours, and programs of the short names.
works() {
    echo 'no library' >"$root/lib/libtcmalloc_minimal.so"
    for name in replay postprocess; do
        printf '#!/bin/sh\nexit 99\n' >"$root/bin/$name" && chmod +x "$root/bin/$name" || return 1
    done
    "$root/bin/malloctape" record -o t.lz4 -- "$workloads/fixed" 2>err &&
        "$root/bin/malloctape" record --allocator=program -o p.lz4 -- "$workloads/fixed" 2>err &&
        [ "$(objects t.lz4 777)" = 1 ] && [ "$(objects p.lz4 777)" = 1 ] &&
        "$root/bin/malloctape" compare --runs 1 --allocators tcmalloc t.lz4 >out 2>err &&
        grep -q '^tcmalloc ' out || return 1
    rm "$root/lib/libtcmalloc_minimal.so" "$root/bin/replay" "$root/bin/postprocess"
}

# A program says by which name it was called.
says() { # says TEXT COMMAND...
    local text=$1
    shift
    if "$@" >out 2>err; then return 1; fi
    grep -q "^$text" err
}
# What replay says itself is not what the allocator printed, also where a linker starts it.
knows_words_of_replay() {
    "$root/bin/malloctape" compare --runs 1 -a "glibc:$(system_library libc.so.6)" t.lz4 >out 2>err &&
        grep -q '^glibc:/' out && ! grep -q 'it printed' out
}
tells_its_name() {
    says 'malloctape-replay: see malloctape-replay --help' "$root/bin/malloctape-replay" a b &&
        says 'malloctape replay: see malloctape replay --help' "$root/bin/malloctape" replay a b &&
        says 'malloctape order: none: cannot open' "$root/bin/malloctape" order none x &&
        says 'malloctape-postprocess: none: cannot open' "$root/bin/malloctape-postprocess" none x &&
        "$root/bin/malloctape-bump-pipes" --help | grep -q '^usage: malloctape-bump-pipes '
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

plan 9
check 'the libraries that record lie in the library directory' installs
if [ -n "$sanitized" ]; then
    skip_test 'what is installed works' 'a sanitizer has its own allocator'
else
    check 'what is installed works' works
fi
check 'every program and manual page has a name of ours' names_are_ours
check 'each command has a page, and help names documents that are there' commands_have_pages
check 'messages have the name that was called' tells_its_name
if [ -n "$sanitized" ]; then
    skip_test 'words of replay are known' 'a sanitizer has its own allocator'
else
    check 'words of replay are known' knows_words_of_replay
fi
check 'uninstall leaves nothing' uninstalls
check 'options that ask for what is so anyway' options_are_always_so
check 'options that ask for something else' options_cannot_be_otherwise
