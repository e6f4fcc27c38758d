#!/bin/sh
# deb.sh --check - names packages that are missing: before anything is built.
# deb.sh ARCHIVE PATCH-DIR DIRECTORY [GPERFTOOLS] - Debian packages of the release ARCHIVE, into
# DIRECTORY, which is emptied before: for `make deb`. PATCH-DIR and GPERFTOOLS as in
# gperftools-patches/fetch.sh. lintian has the last word.
#
# DEB_ARCH  another architecture, which is compiled for on a system of its own, made by mmdebstrap of
#           this machine's package sources and not kept
set -eu

source_dir=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=scripts/packages.sh
. "$source_dir/scripts/packages.sh"

# shellcheck disable=SC2086 # a list
missing=$(packages_missing $DEB_PACKAGES ${DEB_ARCH:+mmdebstrap:mmdebstrap})
[ -z "$missing" ] || {
    echo "make deb: missing: $missing (apt-get install $missing)" >&2
    exit 1
}
[ "$1" != --check ] || exit 0
archive=$1 patches=$2 directory=$3 gperftools=${4:-}
rm -rf "$directory"
mkdir -p "$directory"
tar -xf "$archive" -C "$directory"
tree=$(echo "$directory"/malloctape-*)
mkdir "$tree/debian/gperftools"
# shellcheck disable=SC2086 # none, or one word
"$source_dir/gperftools-patches/fetch.sh" --archive "$patches" "$tree/debian/gperftools" \
    ${gperftools:+"$gperftools"}
if [ -z "${DEB_ARCH:-}" ]; then
    (cd "$tree" && dpkg-buildpackage --unsigned-source --unsigned-changes)
else
    here=$(cd "$directory" && pwd)
    # The build-dependencies are those of debian/control, and nothing else is there.
    # shellcheck disable=SC2016,SC2046 # for the shell of mmdebstrap; a list
    mmdebstrap --quiet --variant=apt --architectures="$(dpkg --print-architecture),$DEB_ARCH" \
        --include="build-essential,crossbuild-essential-$DEB_ARCH" \
        --customize-hook="cp -r '$here/$(basename "$tree")' \"\$1/tree\"" \
        --customize-hook='chroot "$1" sh -ec "cd tree
            DEBIAN_FRONTEND=noninteractive apt-get -q build-dep -y --no-install-recommends \
                -P cross,nocheck -a '"$DEB_ARCH"' ./
            DEB_BUILD_OPTIONS=\"nocheck parallel='"$(nproc)"'\" dpkg-buildpackage \
                --build=binary --host-arch='"$DEB_ARCH"' --build-profiles=cross,nocheck \
                --unsigned-changes" >&2' \
        --customize-hook="for file in \"\$1\"/*malloctape*_*; do cp \"\$file\" '$here'; done" \
        "$(packages_suite)" /dev/null $(packages_sources)
fi
rm -rf "$tree"
lintian --fail-on error --info "$directory"/*.changes
ls "$directory"/*.deb
