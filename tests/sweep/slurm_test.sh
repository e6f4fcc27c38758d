#!/bin/bash
# slurm_test.sh - a sweep on a Slurm of this machine: a controller and two nodes, started as whoever
# runs this and stopped again. A task is killed, a node drained, the controller restarted.
set -euo pipefail

. "$(dirname "$0")/cluster.sh"

if [ -n "$sanitized" ]; then
    echo '1..0 # SKIP nothing can be preloaded into a replay with this sanitizer'
    exit 0
fi
export PATH=$PATH:/usr/sbin
for program in slurmctld slurmd sbatch squeue; do
    command -v "$program" >/dev/null || { echo "1..0 # SKIP needs $program (slurm-wlm)"; exit 0; }
done

plan 9
. "$source_dir/tests/sweep/slurm_here.sh"

# Leaves a task that compares, as JOB_INDEX, in the file `running`.
compares() {
    local job index list id
    while read -r job index list; do
        id=$(sed -n "${index}p" "plan.sweep/slurm/$list.ids")
        case $id in *-1-*) ;; *) continue ;; esac
        [ -e "plan.sweep/logs/$id" ] && echo "${job}_$index" >running && return 0
    done < <(squeue -h -r -t RUNNING -o '%F %K %k' 2>/dev/null)
    return 1
}

submits() {
    "$bin/malloctape" sweep plan.json --on slurm --partition quiet >sweep.out 2>sweep.err &
    sweep_pid=$!
    wait_until compares && exits 1 sweep --status plan.sweep && prints '^0 of 3 done, ' &&
        prints '^  .*-1-[0-9a-f]*: \(runs on node\|waits, \)'
}
is_killed() { scancel --signal=KILL --full "$(cat running)"; }
is_drained() { scontrol update NodeName=node1 State=DRAIN Reason=noisy; }
restarts() {
    local pid
    pid=$(cat slurmctld.pid) && kill "$pid" && wait_until has_ended "$pid" && slurmctld 2>err
}
completes() {
    exit_status wait "$sweep_pid"
    cp sweep.out out && cp sweep.err err
    [ "$status" = 0 ] && prints '^the jobs are submitted; the same command watches them again, scancel ' &&
        prints '^3 of 3 done; the table: ' && exits 0 sweep --status plan.sweep &&
        prints '^3 of 3 done$'
}
# But for what was killed.
nothing_is_done_twice() {
    cat plan.sweep/slurm/*.ids | sort | uniq -c >submitted
    [ "$(awk '$1 > 1' submitted | wc -l)" = 1 ] && [ "$(wc -l <submitted)" = 4 ] &&
        inodes=$(stat -c %i plan.sweep/results/*.json) && exits 0 sweep plan.json --on slurm &&
        [ "$inodes" = "$(stat -c %i plan.sweep/results/*.json)" ] &&
        [ "$(cat plan.sweep/slurm/*.ids | wc -l)" = "$(awk '{ n += $1 } END { print n }' submitted)" ]
}
tells_what_failed() {
    { head -c 5000 lanes && head -c 1000 /dev/zero && tail -c +6001 lanes; } >damaged &&
        echo '{"traces": ["damaged"], "allocators": ["glibc"], "runs": 1}' >failing.json &&
        exits 1 sweep failing.json --on slurm && says 'failed: .*offset 0x' &&
        exits 1 sweep --status failing.sweep && prints 'FAILED, NonZeroExitCode: .*offset 0x' &&
        [ "$(cat failing.sweep/slurm/*.ids | wc -l)" = 4 ] && truncate -s 0 failing.sweep/logs/* &&
        echo 'slurmstepd: error: DUE TO TIME LIMIT' >failing.sweep/slurm/4.1.out &&
        exits 1 sweep --status failing.sweep && prints 'NonZeroExitCode: slurmstepd: error: DUE TO'
}
# No node is left.
leaves_jobs_when_interrupted() {
    rm plan.sweep/results/lanes-* && scontrol update NodeName=node2 State=DRAIN Reason=noisy
    "$bin/malloctape" sweep plan.json --on slurm >left.out 2>left.err &
    wait_until grep -q -s 'the jobs are submitted' left.out && kill -TERM $!
    exit_status wait $!
    [ "$status" = 1 ] && grep -q '^the jobs keep running; ' left.out &&
        [ "$(squeue -h -t PENDING -o %j | grep -c malloctape)" = 1 ] &&
        $(sed -n 's/.* \(scancel --name [^ ]*\) cancels them/\1/p' left.out | tail -n 1) &&
        wait_until eval '[ -z "$(squeue -h)" ]'
}

check 'Slurm runs' starts
check 'a plan is carried out here' prepare_plan
check 'a plan becomes jobs' submits
check 'a task is killed, a node drained, the controller restarted' eval \
    'is_killed && is_drained && restarts'
check 'the sweep completes' completes
check 'nothing is done twice' nothing_is_done_twice
check 'results are those of a sweep here' same_results plan.sweep
check 'what fails again and again is told with its reason' tells_what_failed
check 'interrupted, it leaves its jobs and says how to cancel them' leaves_jobs_when_interrupted
