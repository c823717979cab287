#!/bin/sh
# A Slurm of two nodes on this machine, for tests: cluster.sh start|stop FOLDER. Needs root, and Debian's packages:
#   apt-get install -y --no-install-recommends slurm-wlm munge
set -eu
command=$1
folder=$2

start() {
    mkdir -p "$folder/state" /run/munge /var/log/munge
    chown munge: /run/munge /var/log/munge
    [ -S /run/munge/munge.socket.2 ] && munge -n > /dev/null 2>&1 || {
        su -s /bin/sh munge -c "munged --pid-file=/run/munge/munged.pid"
        touch "$folder/own_munge"
    }
    name=$(hostname -s)
    cat > "$folder/slurm.conf" <<EOF
ClusterName=test
SlurmctldHost=$name(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmdParameters=config_overrides
SlurmctldPort=16817
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool.%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.%n.log
NodeName=n1 NodeHostname=$name NodeAddr=127.0.0.1 Port=17001 CPUs=4
NodeName=n2 NodeHostname=$name NodeAddr=127.0.0.1 Port=17002 CPUs=4
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
EOF
    slurmctld -f "$folder/slurm.conf"
    for node in n1 n2; do
        mkdir -p "$folder/spool.$node"
        slurmd -f "$folder/slurm.conf" -N "$node"
    done
    for attempt in $(seq 60); do
        ready=$(SLURM_CONF="$folder/slurm.conf" sinfo --noheader --format=%D --states=idle 2> /dev/null || true)
        [ "$ready" = 2 ] && return 0
        sleep 1
    done
    echo "the two nodes did not become idle: see $folder/*.log" >&2
    return 1
}

# The daemons write into the folder until they are gone: only then may anybody remove it.
end() {
    [ -f "$1" ] || return 0
    pid=$(cat "$1")
    kill "$pid" 2> /dev/null || return 0
    for attempt in $(seq 200); do
        state=$(sed 's/.*) //; s/ .*//' "/proc/$pid/stat" 2> /dev/null || true)
        case $state in "" | Z) return 0 ;; esac
        sleep 0.1
    done
    kill -9 "$pid" 2> /dev/null || true
}

stop() {
    end "$folder/slurmd.n1.pid"
    end "$folder/slurmd.n2.pid"
    end "$folder/slurmctld.pid"
    [ ! -f "$folder/own_munge" ] || end /run/munge/munged.pid
}

case $command in
    start) start ;;
    stop) stop ;;
    *) echo "usage: cluster.sh start|stop FOLDER" >&2; exit 2 ;;
esac
