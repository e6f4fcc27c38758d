#!/bin/bash
# parallel_test.sh - a sweep on two machines by GNU parallel over ssh: two ssh servers of this machine,
# started as whoever runs this. A task is killed, and one of the servers.
set -euo pipefail

. "$(dirname "$0")/cluster.sh"

if [ -n "$sanitized" ]; then
    echo '1..0 # SKIP nothing can be preloaded into a replay with this sanitizer'
    exit 0
fi
sshd=$(PATH=$PATH:/usr/sbin command -v sshd) || { echo '1..0 # SKIP needs openssh-server'; exit 0; }
parallel --version 2>/dev/null | grep -q '^GNU parallel' || { echo '1..0 # SKIP needs parallel'; exit 0; }
if [ "$(id -u)" = 0 ]; then mkdir -p /run/sshd; fi

plan 5
export HOME=$PWD # parallel keeps files there
read -r first second <<<"$(free_ports 2)"
ssh-keygen -q -t ed25519 -N '' -f key
cp key.pub authorized
for port in $first $second; do
    ssh-keygen -q -t ed25519 -N '' -f "host.$port"
    cat >"sshd.$port" <<CONF
Port $port
ListenAddress 127.0.0.1
HostKey $PWD/host.$port
PidFile $PWD/sshd.$port.pid
AuthorizedKeysFile $PWD/authorized
StrictModes no
UsePAM no
PasswordAuthentication no
CONF
    cat >>hosts <<HOSTS
1/ssh -p $port -i $PWD/key -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR 127.0.0.1
HOSTS
done
stop_servers() {
    for port in $first $second; do
        [ ! -e "sshd.$port.pid" ] || kill "$(cat "sshd.$port.pid")" 2>/dev/null || true
    done
    rm -rf "$scratch"
}
trap stop_servers EXIT

answers() { "${@}" true </dev/null 2>err; }
starts() {
    "$sshd" -f "$PWD/sshd.$first" -E log && "$sshd" -f "$PWD/sshd.$second" -E log || return 1
    while read -r host; do
        # shellcheck disable=SC2086 # a command
        wait_until answers ${host#1/} || return 1
    done <hosts
}
submits() {
    "$bin/malloctape" sweep plan.json --on parallel --hosts hosts >sweep.out 2>sweep.err &
    sweep_pid=$!
    wait_until eval '[ -n "$(ls plan.sweep/logs/*-1-* 2>/dev/null)" ]'
}
# The process that compares, of a task.
kills_one() {
    local task
    for task in $(pgrep -f 'compare .*results/new[.]'); do
        [ "$(readlink "/proc/$task/cwd")" != "$(pwd -P)/plan.sweep" ] || ! kill -KILL "$task" ||
            return 0
    done
    return 1
}
# One server is gone, too: its host takes no further task.
is_killed() { wait_until kills_one && kill "$(cat "sshd.$second.pid")"; }
completes() {
    exit_status wait "$sweep_pid"
    cp sweep.out out && cp sweep.err err
    [ "$status" = 0 ] && prints '^3 of 3 done; the table: ' && [ "$(awk 'NR > 1 { print $2 }' \
        plan.sweep/parallel.log | wc -l)" -ge 1 ]
}

check 'two ssh servers run' starts
check 'a plan is carried out here' prepare_plan
check 'a task on another machine is killed, and a machine' eval 'submits && is_killed'
check 'the sweep completes' completes
check 'results are those of a sweep here' same_results plan.sweep
