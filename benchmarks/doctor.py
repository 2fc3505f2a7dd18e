"""Ten broken environments, each made for real, and what the doctor says: ``python -m benchmarks.doctor [NAME]``.

Needs Linux and root, for small file systems and control groups that only the doctor's process sees. Another version of a
package is installed by pip. Prints one row each, and exits with 1 if the doctor did not name the mend.
"""

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import threading
from dataclasses import dataclass, field
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

from tests.cluster.hub_stub import hub

SMALL = ["suite=kumo", "suite.domains=[medical]", "suite.difficulties=[easy]", "suite.tasks_per_domain=1"]


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing is shown."""


@dataclass
class Broken:
    """An environment, and what the doctor is to say in it."""

    name: str
    check: str
    mend: str
    """What the mend must contain."""
    shell: str = "true"
    """Breaks it, before the doctor starts in the same shell; ``$W`` is an empty folder."""
    overrides: list[str] = field(default_factory=lambda: ["model=simulated"])


def environments(server: str, stub: str) -> list[Broken]:
    """The ten.

    Args:
        server: HOST:PORT of a program that is not Ray.
        stub: Address of a hub that answers 429.
    """
    tmpfs = "mount -t tmpfs -o"
    pip = f"{sys.executable} -m pip install -q --no-deps"
    in_group = (
        "G=/sys/fs/cgroup; F=memory.max; [ -d $G/memory ] && G=$G/memory && F=memory.limit_in_bytes; G=$G/doctor-$$; "
        "mkdir $G && echo 1G > $G/$F && echo $$ > $G/cgroup.procs"
    )
    return [
        Broken("a small /dev/shm", "shared memory", "--shm-size", f"{tmpfs} size=16m none /dev/shm"),
        Broken("few open files", "open files", "LimitNOFILE", "ulimit -n 256"),
        Broken("a read-only run directory", "run folder", "run_dir=", f"{tmpfs} ro,size=1m none $W"),
        Broken("a full disk", "room", "make room", f"{tmpfs} size=1m none $W; cat /dev/zero > $W/full 2>/dev/null"),
        Broken(
            "a cache mounted noexec",
            "caches",
            "RAYCADE_CACHE=",
            f"{tmpfs} noexec,size=1m none $W; export RAYCADE_CACHE=$W",
        ),
        Broken(
            "another program at Ray's address",
            "ray",
            "ss -ltnp",
            overrides=["model=simulated", "cluster=ray", f"cluster.address={server}"],
        ),
        Broken(
            "a hub with too many requests",
            "hub",
            "wait some minutes",
            f"export HF_HOME=$W/hf HF_ENDPOINT={stub}; unset HF_HUB_OFFLINE",
            ["model=qwen3_8b"],
        ),
        Broken(
            "another version of a package",
            "packages",
            "launch.sh setup",
            f"{pip} --target $W/lib httpx==0.26.0 2>/dev/null; export PYTHONPATH=$W/lib:$PYTHONPATH",
        ),
        Broken(
            "a missing key",
            "keys",
            "export the variable",
            "unset OPENAI_API_KEY",
            ["model=openai", "model.engine.model=x"],
        ),
        Broken("a control group of 1 GiB", "memory", "--memory=", in_group, ["model=tiny"]),
    ]


def looked(broken: Broken, folder: Path) -> tuple[dict[str, str], list[str]]:
    """The finding of the check in question, and the names of all that failed."""
    words = [*SMALL, *broken.overrides, f"run_dir={folder}/run"]
    own = f"exec {sys.executable} -m cluster doctor --quick --json {' '.join(map(repr, words))}"
    environment = {**os.environ, "W": str(folder), "PYTHONPATH": str(Path(__file__).parents[1])}
    command = ["unshare", "--mount", "bash", "-c", f"{broken.shell}\n{own}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    if not done.stdout.startswith("{"):
        return {"status": "none", "found": done.stderr.strip()[-200:], "mend": ""}, []
    findings = json.loads(done.stdout)["checks"]
    found = next(each for each in findings if each["name"] == broken.check)
    return found, [each["name"] for each in findings if each["status"] == "fail"]


def main() -> int:
    if os.getuid():
        print("needs root: for file systems and control groups of the doctor's process alone")
        return 1
    server = HTTPServer(("127.0.0.1", 0), _Silent)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    named = 0
    with hub() as stub:
        stub.status = 429
        chosen = environments(f"127.0.0.1:{server.server_port}", stub.address)
        chosen = [each for each in chosen if not sys.argv[1:] or sys.argv[1] in each.name]
        for broken in chosen:
            with tempfile.TemporaryDirectory() as folder:
                found, failed = looked(broken, Path(folder))
            for group in Path("/sys/fs/cgroup").glob("**/doctor-[0-9]*"):
                group.rmdir()  # which nobody is in any more
            right = found["status"] == "fail" and broken.mend in found["mend"]
            named += right
            others = [name for name in failed if name != broken.check]
            print(
                f"{'named' if right else 'NOT NAMED'}: {broken.name}"
                + (f" (also: {', '.join(others)})" if others else "")
            )
            for word in ("found", "mend"):
                lead = f"  {word + ':':<7}"
                print(
                    textwrap.fill(found[word], 80, initial_indent=lead, subsequent_indent=" " * len(lead)), flush=True
                )
    print(f"\nThe mend was named in {named} of {len(chosen)} broken environments.")
    return int(named < len(chosen))


if __name__ == "__main__":
    sys.exit(main())
