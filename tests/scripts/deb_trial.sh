#!/bin/bash
# deb_trial.sh DIRECTORY - for `make check-deb`: installs the packages in DIRECTORY on a system that
# has nothing else, uses them, removes and purges them, and compares all names of files before and
# after. The system is made by mmdebstrap of this machine's package sources, and is not kept.
#
# Run inside it, with the word "inside", it prints TAP.
set -eu

if [ "${1:-}" != inside ]; then
    debs=$(cd "$1" && pwd)
    command -v mmdebstrap >/dev/null || {
        echo 'make check-deb: missing: mmdebstrap (apt-get install mmdebstrap)' >&2
        exit 1
    }
    # shellcheck source=scripts/packages.sh
    . "$(dirname "$0")/../../scripts/packages.sh"
    log=$debs/trial.log
    # shellcheck disable=SC2016,SC2046 # for the shell of mmdebstrap; a list
    mmdebstrap --quiet --variant=apt --include=bash-completion,man-db,pkg-config,sqlite3 \
        --customize-hook="copy-in '$0' /opt" \
        --customize-hook="for deb in '$debs'/*_*.deb; do cp \"\$deb\" \"\$1/opt\"; done" \
        --customize-hook='chroot "$1" bash /opt/deb_trial.sh inside >&2' \
        "$(packages_suite)" /dev/null $(packages_sources) 2>&1 | tee "$log"
    ! grep -q '^not ok' "$log" && grep -qx 'ok 10 - nothing is left' "$log"
    exit
fi

# --- inside ---------------------------------------------------------------------------------------

export HOME=/root DEBIAN_FRONTEND=noninteractive LC_ALL=C
tests_run=0
check() {
    local text=$1 result=ok
    shift
    "$@" >/tmp/out 2>&1 || result='not ok'
    tests_run=$((tests_run + 1))
    echo "$result $tests_run - $text"
    sed 's/^/#   /' /tmp/out | tail -n 12 | cut -c 1-120
}
files() {
    find / -xdev '(' -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /opt ')' -prune \
        -o -print | sort
}
query='with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
    select max(i) from n'

installs() {
    apt-get -q install -y --no-install-recommends /opt/malloctape_*.deb /opt/libmalloctape-dev_*.deb
}
records() {
    malloctape record -o t.lz4 -- sqlite3 :memory: "$query" &&
        malloctape record --allocator=program -o p.lz4 -- sqlite3 :memory: "$query"
}
reports() { malloctape report t.lz4 --under >report && head -n 4 report; }
compares() { malloctape compare --runs 2 t.lz4 >compared && head -n 12 compared; }
orders() {
    malloctape order -q t.lz4 o.lz4 && malloctape replay -q o.lz4 && malloctape verify t.lz4 &&
        malloctape-postprocess -q p.lz4 - | malloctape-replay -q --engine null &&
        malloctape export --to avro -q -o o.avro t.lz4
}
has_manuals() {
    # With this width, man keeps no formatted page.
    MANWIDTH=90 MANPAGER=cat man malloctape | head -n 4 &&
        man -w malloctape-{bump-pipes,convert,postprocess,replay} && apropos malloctape
}
completes() {
    # shellcheck disable=SC1091
    . /usr/share/bash-completion/bash_completion
    __load_completion malloctape || _comp_load malloctape
    COMP_WORDS=(malloctape compare --allocators gl) COMP_CWORD=3
    COMP_LINE="${COMP_WORDS[*]}" COMP_POINT=${#COMP_LINE} COMPREPLY=()
    _malloctape malloctape gl --allocators
    [ "${COMPREPLY[*]}" = glibc ] && echo "${COMP_LINE} -> ${COMPREPLY[*]}"
}
configures() {
    pkg-config --modversion malloctape && pkg-config --cflags --libs malloctape &&
        [ -e /usr/include/malloctape.h ]
}
removes() {
    apt-get -q remove -y malloctape libmalloctape-dev &&
        dpkg --purge malloctape libmalloctape-dev && apt-get -q autoremove -y --purge &&
        apt-get clean
}
leaves_nothing() { files | diff before - && echo "the same $(wc -l <before) names"; }

mkdir /tmp/work
cd /tmp/work
apt-get clean
mandb -q # whose cache is not ours
files >before
echo 1..10
check installed installs
check recorded records
check reported reports
check compared compares
check 'ordered, verified, replayed, exported' orders
check 'man pages' has_manuals
check completion completes
check pkg-config configures
check 'removed and purged' removes
check 'nothing is left' leaves_nothing
