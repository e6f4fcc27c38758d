# shellcheck shell=bash disable=SC2154 # tap.sh sets the variables
# slurm_here.sh - sourced after cluster.sh, in an empty directory: starts() makes a Slurm of this
# machine, a controller and two nodes that run as whoever calls it, and the exit stops it.

name=$(hostname -s)
user=$(id -un)
export SLURM_CONF=$PWD/slurm.conf
read -r port first second <<<"$(free_ports 3)"
cat >slurm.conf <<CONF
ClusterName=replays
SlurmctldHost=$name(127.0.0.1)
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/none
CredType=cred/none
SlurmctldPort=$port
SlurmctldPidFile=$PWD/slurmctld.pid
SlurmctldLogFile=$PWD/slurmctld.log
StateSaveLocation=$PWD/state
SlurmdPidFile=$PWD/slurmd.%n.pid
SlurmdLogFile=$PWD/slurmd.%n.log
SlurmdSpoolDir=$PWD/spool.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=1,sched_min_interval=10000
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
MinJobAge=86400
SlurmdTimeout=300
NodeName=node1 NodeHostname=$name NodeAddr=127.0.0.1 Port=$first CPUs=1 RealMemory=4000 State=UNKNOWN
NodeName=node2 NodeHostname=$name NodeAddr=127.0.0.1 Port=$second CPUs=1 RealMemory=4000 State=UNKNOWN
PartitionName=quiet Nodes=node1,node2 Default=YES MaxTime=INFINITE State=UP OverSubscribe=EXCLUSIVE
CONF

stop_slurm() {
    daemons=$(cat ./*.pid 2>/dev/null || true)
    scontrol shutdown >/dev/null 2>&1 || true
    wait_until daemons_are_gone || true
    rm -rf "$scratch"
}
# Or is a zombie, where nobody looks after those that lost their parent.
has_ended() { ! grep -q '^State:[[:space:]]*[^Z[:space:]]' "/proc/$1/status" 2>/dev/null; }
daemons_are_gone() {
    local daemon
    for daemon in $daemons; do
        has_ended "$daemon" || { kill "$daemon"; return 1; }
    done
}
trap stop_slurm EXIT

nodes_are_idle() { [ "$(sinfo -h -N -o %t 2>/dev/null | tr '\n' ' ')" = 'idle idle ' ]; }
starts() {
    mkdir state && slurmctld -c 2>err && slurmd -N node1 2>>err && slurmd -N node2 2>>err &&
        wait_until nodes_are_idle
}
