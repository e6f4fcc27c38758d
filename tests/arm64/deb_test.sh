#!/bin/bash
# shellcheck disable=SC2154 # tap.sh sets these
# deb_test.sh - the packages for arm64 are installed in the emulated machine of `make check-arm64`, and
# what they install records, orders and reports.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

# Of the system that is there, dpkg knows nothing.
installs() {
    mkdir -p /var/lib/dpkg/info /var/lib/dpkg/updates
    touch /var/lib/dpkg/status
    dpkg --force-depends --install /malloctape/packages/*_arm64.deb >out 2>err &&
        [ "$(dpkg-query -W -f '${db:Status-Status} ' 'malloctape' 'libmalloctape-dev')" = \
            'installed installed ' ]
}

# records OPTION... - a program of the system.
records() {
    rm -f raw.lz4
    (
        cd / && exec malloctape record -q -o "$scratch/raw.lz4" "$@" -- sqlite3 :memory: \
            'with recursive n (x) as (select 1 union all select x + 1 from n where x < 2000)
             select max(x) from n'
    ) >out 2>err && [ "$(cat out)" = 2000 ] && malloctape verify raw.lz4 >out 2>err &&
        malloctape report raw.lz4 >out 2>err && malloctape order -q raw.lz4 ordered >out 2>err &&
        malloctape replay ordered >out 2>err
}

plan 3
check 'the packages are installed' installs
check 'recorded on their tcmalloc, ordered, replayed' records
check 'recorded on the allocator of the program, ordered, replayed' records --allocator=program
