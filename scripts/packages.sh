# shellcheck shell=sh disable=SC2034 # the lists are for the scripts that source this
# packages.sh - sourced by the top-level scripts; installs the Debian packages that they need.
#
# A package is written as NAME, or as NAME:COMMAND when having COMMAND in PATH is as good as having
# the package. Where there is no dpkg nothing can be said about a NAME alone; configure will then
# name what it misses.

# What building takes, tests included: run-demo.sh and run-tests.sh share a build.
BUILD_PACKAGES='autoconf:autoconf automake:automake libtool:libtoolize make:make patch:patch
    gcc:gcc g++:g++ pkg-config:pkg-config libc6-dev liblz4-dev libxxhash-dev
    libjansson-dev libarchive-dev libavro-dev libdw-dev libelf-dev libiberty-dev
    liblzma-dev libmicrohttpd-dev libncurses-dev zlib1g-dev libgtest-dev
    ruby:ruby lz4:lz4 ca-certificates'
# What gives the libraries static probes. They are built without where it is missing.
PROBE_PACKAGES='systemtap-sdt-dev'
# Other allocators to replay on. Tests of them are left out where they are missing.
ALLOCATOR_PACKAGES='libjemalloc2 libmimalloc2.0 libtcmalloc-minimal4'
# The library behind the charts of malloctape compare. The same.
CHART_PACKAGES='libjs-chart.js'
# Programs that tests record, or that read what we write, and libraries that are preloaded beside
# ours. The same. Not installed, for their size, but used where they are: nodejs (it runs the
# scripts of pages), chromium, a JDK, heaptrack, lld, and what bench/README.md names.
PROGRAM_PACKAGES='avro-bin:avrocat redis-server:redis-server redis-tools:redis-benchmark
    sqlite3:sqlite3 perl:perl python3 git:git
    debuginfod:debuginfod valgrind:valgrind libeatmydata1 libfaketime bash-completion zsh:zsh'
# What `make check-slurm` uses. Installed for the long tests only, as it brings daemons.
SLURM_PACKAGES='slurm-wlm:slurmctld openssh-server:sshd parallel:parallel'
# What only the long tests use. The same.
LONG_PACKAGES='gdb:gdb'
# What `make deb` needs besides, and `make check-deb` mmdebstrap. Not installed: they name what is
# missing.
DEB_PACKAGES='dpkg-dev:dpkg-buildpackage debhelper:dh lintian:lintian xz-utils:xz'

package_is_there() {
    if [ "${1%:*}" != "$1" ] && command -v "${1#*:}" >/dev/null 2>&1; then
        return 0
    elif command -v dpkg-query >/dev/null 2>&1; then
        dpkg-query -W -f='${db:Status-Status}\n' "${1%:*}" 2>/dev/null | grep -qx installed
    else
        [ "${1%:*}" = "$1" ]
    fi
}

# packages_missing PACKAGE... - prints the names of those that are not there, on one line.
packages_missing() {
    missing=
    for package in "$@"; do
        package_is_there "$package" || missing="$missing ${package%%:*}"
    done
    echo "${missing# }"
}

# Runs apt-get as root. Asks for a password only where somebody can answer.
apt_get_as_root() {
    set -- apt-get -q -o DPkg::Lock::Timeout=120 "$@"
    if [ "$(id -u)" = 0 ]; then
        DEBIAN_FRONTEND=noninteractive "$@"
    elif [ -t 0 ] && [ -z "${CI:-}" ]; then
        sudo "$@"
    else
        sudo -n "$@"
    fi
}

# packages_fetch NAME... - installs, with fresh package lists if the present ones do not do.
packages_fetch() {
    apt_get_as_root install -y --no-install-recommends "$@" && return 0
    apt_get_as_root update || true # one unreachable source need not matter
    apt_get_as_root install -y --no-install-recommends "$@"
}

# packages_install PROGRAM PACKAGE... - installs what is missing of PACKAGE. When it cannot, says so
# in one line that begins with PROGRAM and returns 1.
packages_install() {
    program=$1
    shift
    missing=$(packages_missing "$@")
    [ -n "$missing" ] || return 0
    if ! command -v apt-get >/dev/null 2>&1; then
        reason='there is no apt-get here'
    elif [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null 2>&1; then
        reason='neither root nor sudo'
    else
        echo "$program: installing $missing" >&2
        log=$(mktemp)
        # shellcheck disable=SC2086 # a list of names
        if packages_fetch $missing >"$log" 2>&1; then
            rm -f "$log"
            return 0
        fi
        reason=$(grep -e '^E: ' -e '^sudo: ' "$log" | tail -n 1)
        rm -f "$log"
    fi
    echo "$program: missing packages: $missing (not installed: ${reason:-apt-get failed})" >&2
    return 1
}

# packages_suite - the name of the system's release.
packages_suite() {
    # shellcheck source=/dev/null
    (. /etc/os-release && echo "$VERSION_CODENAME")
}

# packages_sources - the files that say where packages of this release come from.
packages_sources() {
    grep -lsE "\b$(packages_suite)\b" /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
        /etc/apt/sources.list.d/*.sources
}
