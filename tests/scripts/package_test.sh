#!/bin/bash
# shellcheck disable=SC2154 # tap.sh sets these
# package_test.sh - what debian/ says of the packages: that it is so of what `make install` installs
# and of the source. `make deb` builds them.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

debian=$source_dir/debian
root=$scratch/root

# Each installed file, and each name in the lists of the packages, has the other.
lists_are_complete() {
    make -C "$build_dir" install DESTDIR="$root" prefix=/usr libdir=/usr/lib/machine \
        docdir=/usr/share/doc/malloctape recorderdir=/usr/lib/machine/malloctape \
        zshcompletiondir=/usr/share/zsh/vendor-completions >make.out 2>err || return 1
    (cd "$root" && find . ! -type d | sed 's|^\./||' | sort) >installed
    cat "$debian"/*.install >lists
    while read -r name; do
        # shellcheck disable=SC2086 # a pattern
        (cd "$root" && find $name ! -type d) || echo "nothing is installed as $name"
    done <lists | sort | diff installed - >out && [ "$(wc -l <installed)" -gt 20 ]
}

# A program that knows its own recording, compiled as malloctape.pc says.
pkg_config_knows() {
    sed "s|^prefix=.*|prefix=$root/usr|" "$root/usr/lib/machine/pkgconfig/malloctape.pc" \
        >malloctape.pc
    cat >program.c <<'END'
#include <malloc_thread_cache.h>
#include <malloctape.h>
int main(void) { return malloctape_stop() == ENOSYS ? 0 : 1; }
END
    local flags
    flags=$(PKG_CONFIG_PATH=. pkg-config --cflags --libs malloctape) &&
        [ "${flags#*"-I$root/usr/include"}" != "$flags" ] || return 1
    # shellcheck disable=SC2086 # words
    ${CC:-cc} -no-pie program.c $flags -o program 2>err && ./program
}

versions_agree() {
    local version
    version=$("$bin/malloctape" --version) && version=${version##* } &&
        head -n 1 "$debian/changelog" | grep -qF "malloctape ($version)" &&
        grep -qx "Version: $version" malloctape.pc
}

# The archive that is built in, as debian/copyright states it.
built_in_source_is_stated() {
    local base name sum version
    base=$(echo "$source_dir"/gperftools-patches/*/BASE)
    version=$(awk '$1 == "version" { print $2 }' "$base")
    read -r _ sum name _ <<<"$(grep '^archive' "$base" | head -n 1)"
    [ ${#sum} = 64 ] && grep -q "^ $sum$" "$debian/copyright" &&
        tr -s '\n ' ' ' <"$debian/copyright" | grep -q "gperftools $version .* $name, "
}

# The licence, without what sets it off there.
copyright_is_copying() {
    # shellcheck disable=SC2016 # of sed
    sed -n '/^License: BSD-3-clause$/h; /^ /H; ${x; s/.*License: BSD-3-clause//p}' "$debian/copyright" |
        sed 's/^ //; s/^\.$//' | tr -s '\n ' ' ' >stated
    tail -n +4 "$source_dir/COPYING" | tr -s '\n ' ' ' >copying
    grep -qF "$(cat copying)" stated
}

# The libraries that building takes, but for those of every compiler and of tests.
build_dependencies_are_complete() {
    # shellcheck source=scripts/packages.sh
    . "$source_dir/scripts/packages.sh"
    for name in $BUILD_PACKAGES $PROBE_PACKAGES; do
        case $name in libc6-dev | libgtest-dev) continue ;; esac
        [ "${name%-dev}" = "$name" ] || grep -q "^ $name,$" "$debian/control" ||
            echo "$name is not in Build-Depends"
    done >out
    [ ! -s out ]
}

plan 6
check 'every file that is installed is in the list of a package' lists_are_complete
check 'a program is compiled as pkg-config says' pkg_config_knows
check 'the version is the same everywhere' versions_agree
check 'what building takes is in Build-Depends' build_dependencies_are_complete
check 'debian/copyright states the archive that is built in' built_in_source_is_stated
check 'debian/copyright has the licence of COPYING' copyright_is_copying
