#!/bin/bash
# give_up_test.sh - programs that give up what opening the output's files again needs, or need to be
# alone in their process: under both front ends they are recorded whole, or up to there.
set -eu
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

nobody=65534
group=4711
give_up=$workloads/give_up
chmod 711 "$scratch"

# whole OBJECTS
whole() {
    [ "$status" = 7 ] && [ "$(objects place/raw.lz4 777)" = "$1" ] && [ ! -e place/raw.lz4.spool ] &&
        verified place/raw.lz4 0 && one_line '.*raw.lz4: '
}

# in_place OWNER MODE - an empty directory for the output.
in_place() {
    rm -rf place
    mkdir -m "$2" place
    chown "$1" place
}

# given_up WAY COMMAND... - it goes on and is recorded whole.
given_up() {
    local way=$1
    shift
    exit_status "$@" env TCMALLOC_TRACE_OUTPUT="$scratch/place/raw.lz4" \
        LD_PRELOAD="$tracing_library" "$give_up" "$way" >out 2>err
    [ "$status" != 77 ] || return 0
    whole 30100 || { echo "# $front_end: $way: status $status"; return 1; }
}

# A group that alone may use the directory.
groups_given_up() {
    local way
    local -a as=(setpriv --reuid $nobody --inh-caps +setgid --ambient-caps +setgid)
    for way in setgid setegid setregid setresgid raw_setresgid setfsgid; do
        in_place "root:$group" 770
        given_up $way "${as[@]}" --regid $group --clear-groups || return 1
    done
    for way in setgroups raw_setgroups initgroups; do
        in_place "root:$group" 770
        given_up $way "${as[@]}" --regid $nobody --groups $group || return 1
    done
}

# A user that alone may use it.
user_given_up() {
    local way
    for way in setuid raw_setresuid setfsuid raw_setfsuid; do
        in_place root 700
        given_up $way || return 1
    done
}

# A capability without which root may not use it.
capabilities_given_up() {
    in_place $nobody 700
    given_up capset
}

# Numbers for files.
limits_given_up() {
    local way
    for way in prlimit raw_prlimit raw_setrlimit; do
        in_place "$(id -u)" 700
        given_up $way || return 1
    done
}

# The tree of files, or all of them.
files_given_up() {
    local way
    mkdir -p tree
    for way in raw_chroot pivot_root raw_pivot_root; do
        in_place root 700
        given_up $way || return 1
    done
}

# That other threads begin.
threads_given_up() {
    in_place root 700
    given_up unshare_processes
}

no_file_allowed() {
    in_place "$(id -u)" 700
    given_up landlock
}

# ends_to_be_alone VARIABLE=VALUE... - what is recorded is complete up to there, and a line says so.
ends_to_be_alone() {
    local way
    for way in alone raw_alone; do
        in_place "$(id -u)" 700
        exit_status env "$@" TCMALLOC_TRACE_OUTPUT="$scratch/place/raw.lz4" \
            LD_PRELOAD="$tracing_library" "$give_up" $way >out 2>err
        whole 30200 &&
            grep -q '; ended because the program needs to be single-threaded$' err || return 1
    done
}

alone() { ends_to_be_alone TCMALLOC_TRACE_CONTROL=0 && ends_to_be_alone TCMALLOC_TRACE_CONTROL=1; }

plan 16
for each in tcmalloc program; do
    under $each
    check_as_root "$front_end: groups" groups_given_up
    check_as_root "$front_end: a user" user_given_up
    check_as_root "$front_end: capabilities" capabilities_given_up
    check_as_root "$front_end: the tree of files" files_given_up
    check_as_root "$front_end: threads" threads_given_up
    check "$front_end: limits" limits_given_up
    check "$front_end: files, by landlock" no_file_allowed
    if unshare -U true 2>/dev/null; then
        check "$front_end: to be alone" alone
    else
        skip_test "$front_end: to be alone" 'no namespaces of users'
    fi
done
