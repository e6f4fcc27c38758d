#!/bin/sh
# Makes a directory with the gperftools source that one of our patch directories is for, patched.
#
#   fetch.sh PATCH-DIR DESTINATION [SOURCE]
#   fetch.sh --archive PATCH-DIR DIRECTORY [SOURCE]    puts the archive into DIRECTORY instead
#
# PATCH-DIR    holds BASE, series and the patches, for example gperftools-patches/2.16.
# DESTINATION  is made, whole or not at all; it must not exist.
# SOURCE       a directory or an archive (configure --with-gperftools). Without it, the first of
#              these:
#                the local cache          $MALLOCTAPE_CACHE, or $XDG_CACHE_HOME/malloctape,
#                                         or ~/.cache/malloctape
#                the distribution         apt-get source, with a private package list, also of the
#                                         suites that BASE names: nothing on the system changes
#                                         and root is not needed
#                the upstream release     curl or wget
#              An archive counts only if BASE lists its SHA-256; a fetched one is kept in the cache.
#
# Every failure is one line on stderr and exit status 1.
set -eu

fail() {
    echo "fetch.sh: gperftools $version: $*" >&2
    exit 1
}

base_values() { # base_values KEY - what BASE says about KEY, one line each
    awk -v key="$1" '$1 == key { $1 = ""; sub(/^ /, ""); print }' "$base"
}

is_accepted() { # is_accepted ARCHIVE - does BASE list its checksum?
    checksum=$(sha256sum <"$1") && base_values archive | grep -q "^${checksum%% *} "
}

# --- finding an archive ---------------------------------------------------------------------------

keep_in_cache() { # keep_in_cache ARCHIVE - a full or read-only cache is no reason to stop
    mkdir -p "$cache" 2>/dev/null && cp "$1" "$cache/.$$" 2>/dev/null &&
        mv "$cache/.$$" "$cache/${1##*/}" || rm -f "$cache/.$$" 2>/dev/null || :
}

find_in_cache() { # prints the path of an accepted archive
    base_values archive | while read -r _ name _; do
        if [ -f "$cache/$name" ] && is_accepted "$cache/$name"; then
            echo "$cache/$name"
            break
        fi
    done
}

# The machine's own package sources, as source packages instead of binary ones; and again with each
# suite of BASE in the place of theirs.
write_apt_sources() { # write_apt_sources DIRECTORY
    mkdir -p "$1/parts"
    eval "$(apt-config shell list Dir::Etc::sourcelist/f parts Dir::Etc::sourceparts/d)"
    for file in "$list" "${parts%/}"/*.list; do
        [ ! -r "$file" ] || sed -n 's/^[[:space:]]*deb\(-src\)\{0,1\}[[:space:]]/deb-src /p' "$file"
    done | sort -u >"$1/parts/lines.list"
    for file in "${parts%/}"/*.sources; do
        [ ! -r "$file" ] || sed 's/^[Tt]ypes:.*/Types: deb-src/' "$file" >"$1/parts/${file##*/}"
    done
    for suite in $(base_values suite); do
        sed "s/^\(deb-src \(\[[^]]*\] *\)\{0,1\}[^ ]* *\)[^ ]*/\1$suite/" "$1/parts/lines.list" |
            sort -u >"$1/parts/$suite.list"
        for file in "${parts%/}"/*.sources; do
            [ ! -r "$file" ] || sed "s/^[Tt]ypes:.*/Types: deb-src/; s/^[Ss]uites:.*/Suites: $suite/" \
                "$file" >"$1/parts/$suite-${file##*/}"
        done
    done
}

write_apt_configuration() { # write_apt_configuration DIRECTORY
    cat >"$1/apt.conf" <<END
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$1/parts";
Dir::State::lists "$1/lists";
Dir::Cache "$1/cache";
APT::Sandbox::User "$(id -un)";
Acquire::Languages "none";
END
    mkdir -p "$1/lists/partial" "$1/cache/archives/partial" "$1/download"
}

fetch_with_apt() { # prints the path of an accepted archive; what went wrong goes to $work/reasons
    package=$(base_values apt)
    if [ -z "$package" ] || ! command -v apt-get >/dev/null 2>&1; then
        echo "no apt-get" >>"$work/reasons"
        return 0
    fi
    write_apt_sources "$work/apt"
    write_apt_configuration "$work/apt"
    # A repository without source packages makes update fail; the others still count.
    apt-get -c "$work/apt/apt.conf" -q update >"$work/apt/log" 2>&1 || :
    (cd "$work/apt/download" &&
        apt-get -c "$work/apt/apt.conf" -q source --download-only --only-source "$package") \
        >>"$work/apt/log" 2>&1 || :
    for file in "$work"/apt/download/*.tar.*; do
        if [ -f "$file" ] && is_accepted "$file"; then
            echo "$file"
            return 0
        fi
    done
    echo "apt-get source $package: $(grep -e 'Failed to fetch' -e '^E:' "$work/apt/log" |
        head -n 1)" >>"$work/reasons"
}

download() { # download URL FILE
    if command -v curl >/dev/null 2>&1; then
        curl -fsSL --connect-timeout 20 -o "$2" "$1"
    elif command -v wget >/dev/null 2>&1; then
        wget -q --timeout=20 --tries=2 -O "$2" "$1"
    else
        echo "no curl or wget" >&2
        return 1
    fi
}

fetch_release() { # prints the path of an accepted archive
    base_values archive | while read -r _ name url; do
        [ -n "$url" ] || continue
        if ! download "$url" "$work/$name" 2>"$work/download.log"; then
            echo "$url: $(tail -n 1 "$work/download.log")" >>"$work/reasons"
        elif ! is_accepted "$work/$name"; then
            echo "$url: wrong SHA-256" >>"$work/reasons"
        else
            echo "$work/$name"
            break
        fi
    done
}

find_archive() { # sets $archive
    archive=$(find_in_cache)
    [ -z "$archive" ] || return 0
    echo "fetch.sh: gperftools $version is not in $cache; fetching its source"
    archive=$(fetch_with_apt)
    [ -n "$archive" ] || archive=$(fetch_release)
    [ -n "$archive" ] || fail "cannot be fetched: $(paste -sd ';' "$work/reasons" |
        sed 's/;/; /g')." "Use configure --with-gperftools=DIR-or-archive"
    keep_in_cache "$archive"
}

# --- from archive to patched tree -----------------------------------------------------------------

unpack() { # unpack ARCHIVE
    mkdir "$work/tree"
    tar -xf "$1" -C "$work/tree" --strip-components=1 2>"$work/tar.log" ||
        fail "$1 does not unpack: $(head -n 1 "$work/tar.log")"
}

# Only what our build reads: the directory may hold a build of its own.
copy_directory() { # copy_directory DIRECTORY
    grep -q "^AC_INIT(\[gperftools\],\[$version\]" "$1/configure.ac" 2>/dev/null ||
        fail "$1 is not the source of this version (see configure.ac there)"
    mkdir "$work/tree"
    (cd "$1" && tar -cf - --exclude='*.o' --exclude='*.lo' --exclude=.libs --exclude=.deps \
        --exclude=src/config.h --exclude=src/gperftools/tcmalloc.h --exclude=configure \
        configure.ac Makefile.am README m4 src) | tar -xf - -C "$work/tree"
}

apply_patches() {
    while read -r name; do
        patch -d "$work/tree" -p1 -F0 -N -s --no-backup-if-mismatch -r - <"$patches/$name" \
            >"$work/patch.log" 2>&1 ||
            fail "$patches/$name does not apply: $(tr '\n' ' ' <"$work/patch.log")"
    done <"$patches/series"
}

only_archive=
if [ "${1:-}" = --archive ]; then
    only_archive=yes
    shift
fi
if [ $# -lt 2 ] || [ $# -gt 3 ]; then
    echo "usage: fetch.sh [--archive] PATCH-DIR DESTINATION [SOURCE]" >&2
    exit 1
fi
patches=$1 destination=$2 source=${3:-}
base=$patches/BASE
version=
version=$(base_values version)
[ -n "$only_archive" ] || [ ! -e "$destination" ] || fail "$destination exists already"
cache=${MALLOCTAPE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/malloctape}
mkdir -p "$(dirname "$destination")"
# Beside the destination, so that the last step is a rename; absolute, for apt.
work=$(cd "$(dirname "$destination")" && mktemp -d "$PWD/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

if [ -n "$source" ] && [ -d "$source" ]; then
    [ -z "$only_archive" ] || fail "$source is a directory; an archive is needed"
    copy_directory "$source"
elif [ -n "$source" ]; then
    [ -f "$source" ] || fail "$source does not exist"
    is_accepted "$source" || fail "$source: SHA-256 is ${checksum%% *}, which $base does not list"
    archive=$source
else
    find_archive
fi
if [ -n "$only_archive" ]; then
    cp "$archive" "$destination/"
    exit
fi
[ -d "$work/tree" ] || unpack "$archive"
apply_patches
mv "$work/tree" "$destination"
