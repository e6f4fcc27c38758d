#!/bin/sh
# deb.sh ARCHIVE PATCH-DIR DIRECTORY [GPERFTOOLS] - Debian packages of the release ARCHIVE, into
# DIRECTORY, which is emptied before: for `make deb`. PATCH-DIR and GPERFTOOLS as in
# gperftools-patches/fetch.sh. lintian has the last word.
set -eu

source_dir=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=scripts/packages.sh
. "$source_dir/scripts/packages.sh"

# shellcheck disable=SC2086 # a list
missing=$(packages_missing $DEB_PACKAGES)
[ -z "$missing" ] || {
    echo "make deb: missing: $missing (apt-get install $missing)" >&2
    exit 1
}
archive=$1 patches=$2 directory=$3 gperftools=${4:-}
rm -rf "$directory"
mkdir -p "$directory"
tar -xf "$archive" -C "$directory"
tree=$(echo "$directory"/malloctape-*)
mkdir "$tree/debian/gperftools"
# shellcheck disable=SC2086 # none, or one word
"$source_dir/gperftools-patches/fetch.sh" --archive "$patches" "$tree/debian/gperftools" \
    ${gperftools:+"$gperftools"}
(cd "$tree" && dpkg-buildpackage --unsigned-source --unsigned-changes)
rm -rf "$tree"
lintian --fail-on error --info "$directory"/*.changes
ls "$directory"/*.deb
