#!/usr/bin/env bash
# Plays one run as one Slurm job, which is requeued after time limits, preemption and node failures until the run is complete.
#
#   ./launch.sh slurm [sbatch options] -- [hydra overrides]
#
#   ./launch.sh slurm --nodes=4 --gpus-per-node=8 --time=12:00:00 -- suite=kidgym model=qwen2_5_vl_72b
#
# Options before the -- go to sbatch (--account, --qos, --mem, ...), overrides after it to `raycade run`. With --array=1-N
# each job of the array plays shard i/N, in the run directory RUN_DIR/shard-i. Five options are ours:
#
#   --dry-run          print the sbatch command and the plan of the run, and submit nothing
#   --setup=FILE       a shell file that every node reads first: module load, proxies, HF_HOME, HF_HUB_OFFLINE
#   --node-cache=DIR   a directory on each node's local disk for the caches of vLLM, Triton and PyTorch's compiler
#   --container=IMAGE  play in raycade's image: a folder or *.sqfs (by ch-run), a *.sif (by Apptainer), else by Pyxis
#   --mount=DIR,...    folders that the container sees besides the working directory, $HOME, $HF_HOME and --node-cache
#
# The job's working directory, and so its run directory, must be on a file system that all nodes share. A job that reaches
# its time limit is requeued, at most RAYCADE_MAX_REQUEUES times (20). RAYCADE_READY_SECONDS is the timeout for nodes to
# come up (300), RAYCADE_TMPDIR each node's local temporary directory (/tmp), RAYCADE_KEEP_LOGS a shared directory that
# Ray's logs are copied to before they are removed.
#
# This file has three parts: it submits itself (submit), is the batch script (job), and runs on each node (node).
set -euo pipefail

# Below, each Python is started with -P: no module of the folder that one stands in is run, as with the command raycade.

# Slurm takes the number of an array's last job for the whole array, so each of its jobs is called ARRAY_TASK.
job_id="${SLURM_JOB_ID:-}"
[[ -z ${SLURM_ARRAY_JOB_ID:-} ]] || job_id="${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"

# What the job is told beside its overrides: by options, or by the environment of the shell that submits.
SETTINGS=(RAYCADE_SETUP RAYCADE_NODE_CACHE RAYCADE_CONTAINER RAYCADE_MOUNT
    RAYCADE_MAX_REQUEUES RAYCADE_READY_SECONDS RAYCADE_TMPDIR RAYCADE_KEEP_LOGS)
CONTINUE=75 # raycade's exit code for a run that was stopped early and can be resumed
# After the last SIGTERM Slurm waits KillWait (30 s by default) before SIGKILL. The driver gets FINISH_SECONDS to finish
# running episodes and TERM_SECONDS to commit and leave; the rest is for cleanup.
FINISH_SECONDS=4
TERM_SECONDS=8
STATE_TRIES=10 # a second apart, to learn from Slurm what SIGTERM means

say() { printf 'raycade: %s\n' "$*" >&2; }
die() { local code="$1"; shift; say "$*"; exit "$code"; }
running() { [[ -n $1 ]] && kill -0 "$1" 2>/dev/null; }
# Waits up to $1 seconds for process $2; whether it has exited.
exits_within() {
    local tick
    for ((tick = 0; tick < 5 * $1; tick++)); do
        running "$2" || return 0
        sleep 0.2
    done
    return 1
}
end_within() { exits_within "$1" "$2" || kill -KILL "$2"; }

# --- on the login node ------------------------------------------------------------------------------------------------

submit() {
    local options=() settings=() root script job command plan dry_run="" array="" name word log="raycade-%j.log"
    while (($#)) && [[ $1 != -- && $1 != -h && $1 != --help ]]; do
        case "$1" in
            --dry-run) dry_run=yes ;;
            --setup=*)
                [[ -f ${1#*=} ]] || die 2 "$1: there is no such file"
                RAYCADE_SETUP="$(realpath "${1#*=}")" && export RAYCADE_SETUP
                ;;
            --node-cache=*)
                [[ ${1#*=} == /* ]] || die 2 "$1: must be an absolute path on each node's local disk"
                export RAYCADE_NODE_CACHE="${1#*=}"
                ;;
            --container=*) export RAYCADE_CONTAINER="${1#*=}" ;;
            --mount=*) export RAYCADE_MOUNT="${1#*=}" ;;
            --array | --array=* | -a*)
                [[ $1 =~ ^--array=1-([0-9]+)(%[0-9]+)?$ ]] ||
                    die 2 "$1: must be --array=1-N for N shards, or --array=1-N%M to play M of them at a time"
                array="${BASH_REMATCH[1]}" log="raycade-%A_%a.log"
                options+=("$1")
                ;;
            *) options+=("$1") ;;
        esac
        shift
    done
    if [[ ${1:-} != -- ]]; then
        sed -n '2,/^set -/{/^set -/d; s/^# \{0,1\}//; p}' "${BASH_SOURCE[0]}"
        [[ ${1:-} == -h || ${1:-} == --help ]] && exit 0
        die 2 "missing -- between sbatch's options and the overrides"
    fi
    shift
    [[ " $* " != *" -m "* && " $* " != *" --multirun "* ]] ||
        die 2 "one job is one run; for several models: raycade run -m hydra/launcher=slurm model=a,b"
    if [[ -n $array ]]; then
        [[ " $*" == *" run_dir="* ]] ||
            die 2 "--array: name the run directory (run_dir=PATH); the shards are PATH/shard-1 to PATH/shard-$array"
        for word in "$@"; do
            [[ ${word,,} != run_dir= && ${word,,} != run_dir=null ]] || die 2 "--array: $word names no run directory"
        done
        [[ " $*" != *" shard="* ]] || die 2 "--array plays one shard in each job; leave out shard=..."
    fi
    [[ -n $dry_run ]] || command -v sbatch >/dev/null ||
        die 2 "sbatch not found; log in to a machine of the Slurm cluster"
    [[ -z ${RAYCADE_CONTAINER:-} ]] || check_container
    script="$(realpath "${BASH_SOURCE[0]}")"
    root="$(dirname "$(dirname "$(dirname "$script")")")"
    # Report bad settings and overrides now, not after a night in the queue.
    for name in RAYCADE_MAX_REQUEUES RAYCADE_READY_SECONDS; do
        [[ -z ${!name:-} || ${!name} =~ ^(0|[1-9][0-9]{0,8})$ ]] || die 2 "$name=${!name}: must be a whole number"
    done
    [[ -z ${RAYCADE_SETUP:-} || -f $RAYCADE_SETUP ]] || die 2 "RAYCADE_SETUP=$RAYCADE_SETUP: there is no such file"
    [[ -z ${RAYCADE_NODE_CACHE:-} || $RAYCADE_NODE_CACHE == /* ]] ||
        die 2 "RAYCADE_NODE_CACHE=$RAYCADE_NODE_CACHE: must be an absolute path on each node's local disk"
    plan="$("$root/.venv/bin/python" -P -m cluster plan "$@")" || exit
    if [[ -n $array ]]; then
        SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_MAX="$array"
        of_array "$@"
        "$root/.venv/bin/python" -P -m cluster plan "${overrides[@]}" >/dev/null ||
            die 2 "--array: the first job could not play its shard: ${overrides[*]}"
    fi
    # As words, because the environment does not reach the job with --export=NONE.
    for name in "${SETTINGS[@]}"; do
        [[ -z ${!name:-} ]] || settings+=("$name=${!name}")
    done
    command=(sbatch --parsable --job-name=raycade --nodes=1 --ntasks-per-node=1 --requeue --open-mode=append
        --signal=B:USR1@120 --output="$log" "${options[@]}" "$script" job "$root" "${settings[@]}" -- "$@")
    [[ " ${options[*]}" == *" --mem"* || " ${options[*]} " == *" --exclusive"* ]] ||
        say "no --mem: jobs get the partition's default, often 2 to 4 GB for each CPU. A replica needs main memory for" \
            "its weights while they load, and 8 GB for its pictures: see docs/slurm.md"
    if [[ -n $dry_run ]]; then
        printf '%s\n\n' "$plan"
        printf '%q ' "${command[@]}" && echo
        if [[ -n ${RAYCADE_CONTAINER:-} ]]; then
            enter
            printf '\nOn every node:\n    srun ... %s%s node\n' "${step:+${step[*]} }" "$node_script"
            printf '    %s%s start ...\n' "${inside:+${inside[*]} }" "${python%/*}/ray"
            printf 'On the first node:\n    %s %s -P -m cluster run ...\n' "${first[*]}" "$python"
        fi
        exit
    fi
    job="$("${command[@]}")"
    if [[ -n $array ]]; then
        say "submitted job ${job%%;*}, $array shards, which write to: $PWD/raycade-${job%%;*}_SHARD.log"
        say "when all are done: raycade merge WHOLE RUN_DIR/shard-*"
    else
        say "submitted job ${job%%;*}. It writes to: $(scontrol show job "${job%%;*}" | sed -n 's/^ *StdOut=//p')"
    fi
    say "squeue --job=${job%%;*} shows it, scancel ${job%%;*} cancels it"
}

# Whether there is such an image, before a night in the queue.
check_container() {
    # A path that ends otherwise was meant as a folder; Pyxis takes paths of *.sqsh only.
    if [[ $(runtime) != pyxis || ($RAYCADE_CONTAINER == [./]* && $RAYCADE_CONTAINER != *.sqsh) ]]; then
        [[ -e $RAYCADE_CONTAINER ]] || die 2 "--container=$RAYCADE_CONTAINER: there is no such image"
    fi
    if [[ $(runtime) != pyxis ]]; then
        RAYCADE_CONTAINER="$(realpath "$RAYCADE_CONTAINER")"
    elif [[ -z $dry_run ]] && command -v srun >/dev/null && [[ $(srun --help) != *--container-image* ]]; then
        die 2 "--container=$RAYCADE_CONTAINER: this Slurm has no Pyxis; name a folder (for ch-run) or a *.sif (for Apptainer)"
    fi
}

# --- in a container ---------------------------------------------------------------------------------------------------

runtime() {
    if [[ -d $RAYCADE_CONTAINER || $RAYCADE_CONTAINER == *.sqfs ]]; then
        echo ch-run
    elif [[ $RAYCADE_CONTAINER == *.sif ]]; then
        echo apptainer
    else
        echo pyxis
    fi
}

# Sets how this job's commands get into the container: `inside` stands before one on this node, `step` are options of the srun
# that starts the nodes, `first` stands before one on the first node. Only srun can enter a container of Pyxis: there the
# steps are inside as a whole. The image holds a checkout with its .venv in /opt/raycade.
enter() {
    local mounts=() binds=() own each
    inside=() step=() first=() node_script="$script" host_python="$python"
    [[ -n ${RAYCADE_CONTAINER:-} ]] || return 0
    python=/opt/raycade/.venv/bin/python
    IFS=, read -ra mounts <<<"$HOME,$PWD${HF_HOME:+,$HF_HOME}${RAYCADE_TMPDIR:+,$RAYCADE_TMPDIR}${RAYCADE_NODE_CACHE:+,$RAYCADE_NODE_CACHE}${RAYCADE_MOUNT:+,$RAYCADE_MOUNT}"
    # What the shell of the host names is not in the image.
    own=(env -u PYTHONPATH -u VIRTUAL_ENV PATH=/opt/raycade/.venv/bin:/usr/local/bin:/usr/bin:/bin)
    case "$(runtime)" in
        ch-run)
            for each in "${mounts[@]}"; do
                [[ $each/ != /tmp/* ]] || continue # the host's /tmp is there anyway
                binds+=("--bind=$each:$each")
                # It cannot make the folders to mount on, in an image that it does not write to.
                [[ -z ${SLURM_JOB_ID:-} || ! -d $RAYCADE_CONTAINER ]] || mkdir -p "$RAYCADE_CONTAINER$each" || true
            done
            inside=(env USER="${USER:-$(id -un)}" ch-run "${binds[@]}" --cd="$PWD" "$RAYCADE_CONTAINER" -- "${own[@]}")
            first=("${inside[@]}")
            ;;
        apptainer)
            for each in "${mounts[@]}"; do binds+=(--bind "$each"); done
            inside=(apptainer exec --nv "${binds[@]}" --pwd "$PWD" "$RAYCADE_CONTAINER" "${own[@]}")
            first=("${inside[@]}")
            ;;
        pyxis)
            for each in /tmp "${mounts[@]}"; do binds+=("$each:$each"); done
            step=(--container-image="$RAYCADE_CONTAINER" --no-container-entrypoint --container-workdir="$PWD"
                --container-mounts="$(IFS=, && echo "${binds[*]}")")
            first=(srun --export=ALL --overlap --nodes=1 --ntasks=1 --nodelist="${SLURMD_NODENAME:-FIRST}" --input=none "${step[@]}" "${own[@]}")
            node_script=/opt/raycade/cluster/launch/slurm.sh
            export RAYCADE_VENV_PYTHON="$python" RAYCADE_CONTAINER="" # for the steps: they are inside
            ;;
    esac
}

# --- the batch script, on the job's first node ------------------------------------------------------------------------

job() {
    local root="$1" restarts="${SLURM_RESTART_COUNT:-0}" most
    shift
    while [[ $1 != -- ]]; do # SETTINGS
        declare -gx "$1"
        shift
    done
    shift
    most="${RAYCADE_MAX_REQUEUES:-20}"
    ready_seconds="${RAYCADE_READY_SECONDS:-300}"
    export RAYCADE_VENV_PYTHON="$root/.venv/bin/python"
    python="$RAYCADE_VENV_PYTHON"
    script="$root/cluster/launch/slurm.sh"
    overrides=("$@")
    [[ -z ${SLURM_ARRAY_TASK_ID:-} ]] || of_array "$@"
    nodes="" driver="" received="" # process ids of srun and of raycade; the signal received from Slurm
    say "job $job_id on $SLURM_JOB_NUM_NODES nodes ($SLURM_JOB_NODELIST), start $((restarts + 1))"
    ((restarts <= most)) || die "$CONTINUE" "not done after $restarts requeues (RAYCADE_MAX_REQUEUES=$most)"
    trap 'forward USR1' USR1
    trap 'forward TERM' TERM INT
    trap clean_up EXIT
    read_setup
    enter
    prepare
    start_nodes
    await_nodes
    drive "${overrides[@]}"
}

# This job's shard of the run, below the run directory that was named.
of_array() {
    local word
    overrides=("shard=$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_MAX")
    for word in "$@"; do
        if [[ $word == run_dir=* ]]; then word="$word/shard-$SLURM_ARRAY_TASK_ID"; fi
        overrides+=("$word")
    done
}

# Site files are not written for set -eu.
read_setup() {
    [[ -n ${RAYCADE_SETUP:-} ]] || return 0
    set +eu
    # shellcheck disable=SC1090  # the user's file
    source "$RAYCADE_SETUP" || die 2 "--setup=$RAYCADE_SETUP: exit code $? on $(hostname)"
    set -eu
}

# Forwards a signal to the driver. SIGUSR1 (the time limit is near, or the job is preempted and has grace time) is
# forwarded once, since a second signal ends the driver's grace period. SIGTERM is final: the job is being ended.
forward() {
    if [[ $received == TERM || $received == "$1" ]]; then return; fi
    received="$1"
    say "received SIG$1"
    if running "$driver"; then
        kill -s "$1" "$driver"
    elif [[ $1 == USR1 ]]; then
        requeue "$CONTINUE" # nothing has been played yet
    else
        exit "$CONTINUE"
    fi
}

# Sets up an address, ports, temporary directories and a token for this job alone, as nodes may be shared with other jobs.
prepare() {
    local names
    mapfile -t names < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
    expected=("${names[@]}")
    read -r host port client_port < <("$host_python" -P -m cluster.launch.start_nodes choose "$SLURM_JOB_ID" "$(address_of "${names[-1]}")")
    export RAYCADE_HOST="$host" RAYCADE_PORT="$port" RAYCADE_CLIENT_PORT="$client_port"
    export RAYCADE_TEMPORARY="${RAYCADE_TMPDIR:-/tmp}/raycade-$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}"
    ((${#RAYCADE_TEMPORARY} <= 38)) ||
        die 2 "RAYCADE_TMPDIR=$RAYCADE_TMPDIR: too long, as paths of Unix sockets below it are limited to 107 characters"
    mkdir -m 700 "$RAYCADE_TEMPORARY"
    RAY_AUTH_TOKEN="$("$host_python" -c 'import secrets; print(secrets.token_hex(32))')"
    (umask 077 && printf '%s' "$RAY_AUTH_TOKEN" >"$RAYCADE_TEMPORARY/token")
    export RAY_AUTH_TOKEN RAY_AUTH_MODE=token RAY_USAGE_STATS_ENABLED=0
    export RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S=0 # else a Ray node waits half a minute for its actors when it shuts down
}

address_of() { scontrol show node -o "$1" | sed -n 's/.* NodeAddr=\([^ ]*\).*/\1/p'; }

# Starts a Ray node on each node of the job; a lost node does not end the others.
start_nodes() {
    srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --overlap --export=ALL \
        ${SLURM_CPUS_PER_TASK:+--cpus-per-task="$SLURM_CPUS_PER_TASK"} --kill-on-bad-exit=0 --wait=0 --no-kill \
        --input=none "${step[@]}" "$node_script" node &
    nodes=$!
}

await_nodes() {
    local waiting code=0
    "${first[@]}" "$python" -P -m cluster.launch.start_nodes wait "$host:$port" "$ready_seconds" "${expected[@]}" &
    waiting=$!
    while running "$waiting" && running "$nodes"; do wait -n || true; done
    if ! running "$nodes"; then
        kill "$waiting" 2>/dev/null || true
        die 1 "the Ray nodes exited before they were ready; see their output above"
    fi
    wait "$waiting" || code=$?
    ((code == 0)) || exit "$code"
}

drive() {
    local code=0 orphaned=""
    "${first[@]}" "$python" -P -m cluster run cluster=ray "cluster.address=$host:$port" "$@" &
    driver=$!
    while running "$driver"; do
        wait -n || true # until a process exits or a signal arrives
        if ! running "$nodes" && running "$driver" && [[ $received != TERM ]]; then
            orphaned=yes
            say "the Ray nodes exited; stopping the run"
            kill -TERM "$driver"
        fi
        if [[ $received == TERM || -n $orphaned ]]; then
            # A second signal ends the grace period, for which there is no time.
            exits_within "$FINISH_SECONDS" "$driver" || kill -TERM "$driver"
            end_within "$TERM_SECONDS" "$driver"
        fi
    done
    wait "$driver" || code=$?
    if ((code == 0)); then return; fi
    if [[ $received == TERM ]]; then
        die "$code" "ended by Slurm; finished episodes are in the ledger"
    elif [[ -n $orphaned ]] || ((code == CONTINUE || code > 128)); then
        requeue "$code"
    fi
    die "$code" "the run failed with exit code $code; not requeueing the job"
}

requeue() {
    ((${SLURM_RESTART_COUNT:-0} < ${RAYCADE_MAX_REQUEUES:-20})) ||
        die "$CONTINUE" "not done (exit code $1) after ${SLURM_RESTART_COUNT:-0} requeues (RAYCADE_MAX_REQUEUES=${RAYCADE_MAX_REQUEUES:-20})"
    clean_up
    say "not done (exit code $1); requeueing the job"
    trap '' TERM # requeueing ends this job
    scontrol requeue "$job_id" || die "$CONTINUE" "the job cannot be requeued; run the same command again to resume"
    exit "$CONTINUE"
}

# Ends only what this job started: `ray stop` would also end other jobs' Ray on the same node.
clean_up() {
    trap - EXIT
    trap '' TERM USR1
    if running "$driver"; then kill -KILL "$driver"; fi
    if running "$nodes"; then
        # A signal that only this script handles, so that Ray shuts down cleanly.
        scancel --signal=URG "$job_id.0" 2>/dev/null || true
        end_within 60 "$nodes"
    fi
    [[ -z ${RAYCADE_TEMPORARY:-} ]] || rm -rf "$RAYCADE_TEMPORARY"
}

# --- on each node -----------------------------------------------------------------------------------------------------

node() {
    local role address ray="" code=0
    temporary="$RAYCADE_TEMPORARY.$SLURM_NODEID"
    mkdir -m 700 "$temporary"
    trap end_ray URG
    trap on_term TERM
    trap 'rm -rf "$temporary" || { sleep 1; rm -rf "$temporary"; }' EXIT
    read_setup
    enter
    if [[ -n ${RAYCADE_NODE_CACHE:-} ]]; then
        export VLLM_CACHE_ROOT="$RAYCADE_NODE_CACHE/vllm" TRITON_CACHE_DIR="$RAYCADE_NODE_CACHE/triton"
        export TORCHINDUCTOR_CACHE_DIR="$RAYCADE_NODE_CACHE/inductor"
        mkdir -p "$VLLM_CACHE_ROOT" "$TRITON_CACHE_DIR" "$TORCHINDUCTOR_CACHE_DIR"
    fi
    address="$("$host_python" -P -m cluster.launch.start_nodes address "$RAYCADE_HOST")"
    if ((SLURM_NODEID == 0)); then
        role=(--head --port="$RAYCADE_PORT" --ray-client-server-port="$RAYCADE_CLIENT_PORT" --include-dashboard=false)
    else
        role=(--address="$RAYCADE_HOST:$RAYCADE_PORT")
        "$host_python" -P -m cluster.launch.start_nodes listening "$RAYCADE_HOST:$RAYCADE_PORT" "$ready_seconds" &
        wait $! || return
    fi
    # Ray opens its directory to all users (mode 777), so it is within ours, which is closed.
    # All other ports are arbitrary free ones: another job's Ray may run on the same node.
    "${inside[@]}" "${python%/*}/ray" start --block "${role[@]}" --node-ip-address="$address" --temp-dir="$temporary/r" \
        --labels="slurm-node=$SLURMD_NODENAME" --num-cpus="$SLURM_CPUS_ON_NODE" --object-store-memory=1000000000 \
        --min-worker-port=0 --max-worker-port=0 --dashboard-agent-listen-port=0 --disable-usage-stats \
        &>"$temporary/start.log" &
    ray=$!
    while running "$ray"; do wait "$ray" || code=$?; done
    if [[ -n ${RAYCADE_KEEP_LOGS:-} ]]; then
        mkdir -p "$RAYCADE_KEEP_LOGS/$SLURMD_NODENAME"
        cp -r "$temporary/r/session_latest/logs/." "$RAYCADE_KEEP_LOGS/$SLURMD_NODENAME/" || true
    fi
    if [[ -z $received ]]; then
        say "Ray on $SLURMD_NODENAME exited with code $code. Its last output:"
        tail -n 20 "$temporary/start.log" | sed "s/^/$SLURMD_NODENAME: /" >&2
        ((SLURM_NODEID > 0)) || scancel --signal=URG "$job_id.$SLURM_STEP_ID" # the cluster cannot run without its head
        return 1
    fi
}

# Slurm signals the steps of a job, not its batch script, when it preempts a job that has grace time: then the job is still
# running, and the batch script is told to stop the run; Ray stays up until the driver has committed all. (proctrack/cgroup
# signals this script alone; proctrack/linuxproc signals Ray too.) If the job is being ended, the batch script knows, and
# ends Ray by SIGURG; unless it is gone itself.
on_term() {
    local state="" left
    command -v scontrol >/dev/null || return 0 # in a container of Pyxis; there Slurm signals the driver's step, too
    # A busy controller may not answer at once. Ray must not be ended for that: its running episodes would be lost.
    # SIGNALING is what Slurm calls a running job until all of its processes have the signal.
    for ((left = STATE_TRIES; left > 0; left--)); do
        state="$(scontrol show job -o "$job_id" 2>/dev/null | sed -n 's/.* JobState=\([A-Z]*\).*/\1/p')" || true
        [[ -z $state || $state == SIGNALING ]] || break
        sleep 1
    done
    if [[ $state == RUNNING || $state == SIGNALING ]]; then
        ((SLURM_NODEID > 0)) || scancel --batch --signal=USR1 "$job_id" || say "the batch script cannot be told to stop the run"
    else
        say "SIGTERM on $SLURMD_NODENAME: the job is ${state:-in a state that Slurm does not tell}; ending Ray here"
        (sleep $((FINISH_SECONDS + TERM_SECONDS)) && kill -URG $$) &
    fi
}

end_ray() {
    received=URG
    if running "$ray"; then kill -TERM "$ray"; fi
}

received="" script=""
python="${RAYCADE_VENV_PYTHON:-}"
ready_seconds="${RAYCADE_READY_SECONDS:-300}"
case "${1:-}" in
    job | node) "$@" ;;
    submit) shift; submit "$@" ;;
    *) submit "$@" ;;
esac
