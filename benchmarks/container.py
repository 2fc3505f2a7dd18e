"""The container for CPUs: built, and the demo played in it and outside: ``python -m benchmarks.container``.

Needs root, buildah, mmdebstrap and charliecloud. The image is built on a Debian that mmdebstrap makes, with pip's settings of
this machine, in a folder that is removed at the end (16 GB). The demo is played by a plain user, in a read-only root and
without a network. Prints wall times in multiples of the demo's outside, which is played at the same time.
"""

from __future__ import annotations

import configparser
import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "cluster" / "launch" / "container"
PROGRAMS = ("buildah", "mmdebstrap", "ch-run", "setpriv", "unshare", "ip")
INSIDE = "/opt/raycade/.venv/bin:/usr/bin:/bin"
"""Programs in the image."""
USER = 23456
"""A user that is nobody's."""


def why_not() -> str:
    """Why no container can be built and run here; empty if it can."""
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    if missing:
        return f"needs buildah, mmdebstrap, charliecloud and iproute2; there is no {', '.join(missing)}"
    return "" if os.geteuid() == 0 else "needs root"


def pip_settings() -> tuple[str, list[str]]:
    """Pip's settings of this machine as a file's text, and the volumes that a build needs for what they name."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    values, volumes = {}, set()
    for line in listed.stdout.splitlines():
        key, _, value = line.partition("=")
        name = key.rpartition(".")[2]
        values[name] = value.strip("'").encode().decode("unicode_escape")
        for word in values[name].split():
            # A local index refers to the files beside it.
            path = Path(word.removeprefix("file://")).parent if word.startswith("file://") else Path(word)
            if path.is_absolute() and path.exists() and name != "cert":
                volumes.add(f"{path}:{path}:ro")
        if name == "cert":
            # Not in its own place, where the package ca-certificates writes.
            volumes.add(f"{values[name]}:/etc/pip-certificates.crt:ro")
            values[name] = "/etc/pip-certificates.crt"
    config = configparser.RawConfigParser()
    config["global"] = values
    text = io.StringIO()
    config.write(text)
    return text.getvalue(), sorted(volumes)


def build(folder: Path) -> Path:
    """Build the image for CPUs and export it as a folder.

    Args:
        folder: Empty; gets Debian's root, buildah's store and the image.

    Raises:
        subprocess.CalledProcessError: a step failed; its output has been shown.
    """

    def buildah(*words: str) -> str:
        command = ["buildah", f"--root={folder}/store", f"--runroot={folder}/run", *words]
        environment = {**os.environ, "TMPDIR": str(folder)}
        return subprocess.run(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout

    debian = folder / "debian.tar"
    subprocess.run(["mmdebstrap", "--variant=minbase", "bookworm", str(debian)], check=True)
    (folder / "Containerfile").write_text("FROM scratch\nADD debian.tar /\n")
    try:
        isolated = ["bud", "--isolation=chroot"]
        buildah(*isolated, "--tag=debian", f"--file={folder}/Containerfile", str(folder))
        settings, volumes = pip_settings()
        (folder / "pip.conf").write_text(settings)
        buildah(
            *isolated,
            *(f"--volume={each}" for each in volumes),
            "--build-arg=BASE=localhost/debian",
            "--build-arg=BUILD=cpu",
            f"--secret=id=pip,src={folder}/pip.conf",
            "--tag=raycade:cpu",
            f"--file={FOLDER}/Containerfile",
            f"--ignorefile={FOLDER}/ignore",
            ".",
        )
        container = buildah("from", "raycade:cpu").strip()
        mounted = buildah("mount", container).strip()
        image = folder / "image"
        subprocess.run(["cp", "-a", mounted, str(image)], check=True)
    finally:
        buildah("rm", "--all")  # a mounted container would keep the folder from being removed
    folder.chmod(0o755)
    image.chmod(0o755)
    return image


def offline(command: Sequence[str], home: Path) -> subprocess.CompletedProcess[str]:
    """Run a command with a home of its own and no network but the loopback."""
    home.mkdir(exist_ok=True)
    environment = {
        "HOME": str(home),
        "USER": "nobodys",
        "LANG": "C.UTF-8",
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
    }
    return subprocess.run(
        ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *command],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )


def inside(image: Path, command: Sequence[str], home: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in the container: a plain user, a read-only root, no network."""
    home.mkdir()
    os.chown(home, USER, USER)
    plain = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
    return offline([*plain, "ch-run", str(image), "--", "env", f"PATH={INSIDE}", *command], home)


def main() -> int:
    if why_not():
        print(why_not())
        return 1
    with tempfile.TemporaryDirectory(prefix="raycade-container-") as name:
        folder = Path(name)
        started = time.monotonic()
        image = build(folder)
        seconds = {"build and export": time.monotonic() - started}
        words = {where: ["raycade", "run", f"run_dir={folder / where}/run"] for where in ("outside", "inside")}

        def played(where: str) -> subprocess.CompletedProcess[str]:
            begun = time.monotonic()
            home = folder / where
            done = inside(image, words[where], home) if where == "inside" else offline(words[where], home)
            seconds[f"demo {where}"] = time.monotonic() - begun
            return done

        # At the same time, so that whatever else the machine does slows down both.
        with ThreadPoolExecutor() as pool:
            for done in pool.map(played, words):
                if done.returncode:
                    print(done.stdout, done.stderr)
                    return 1
    for what, taken in seconds.items():
        print(f"{what:<17} {taken / seconds['demo outside']:5.2f} x the demo outside")
    return 0


if __name__ == "__main__":
    sys.exit(main())
