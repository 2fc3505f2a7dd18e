"""launch.sh where there is nothing to install: its help, and its words when something is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

LAUNCH = Path(__file__).resolve().parents[1] / "launch.sh"


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A copy of launch.sh with nothing set up beside it."""
    for name in ("launch.sh", "setup.py", "pyproject.toml", "constraints.txt"):
        shutil.copy(LAUNCH.with_name(name), tmp_path)
    return tmp_path / "launch.sh"


def launch(script: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(script), *arguments],
        cwd="/",
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_help_needs_no_installation(fresh: Path) -> None:
    done = launch(fresh, "--help")
    assert done.returncode == 0
    assert "./launch.sh test" in done.stdout
    assert not (fresh.parent / ".venv").exists()


def test_without_a_suitable_python_it_names_the_required_version(fresh: Path) -> None:
    done = launch(fresh, RAYCADE_PYTHON="/usr/bin/false", RAYCADE_BUILD="cpu")
    assert done.returncode == 1
    assert "needs Python 3.11 or 3.12" in done.stderr
    assert "/usr/bin/false" in done.stderr


def test_a_python_may_lie_in_a_folder_whose_name_has_spaces(fresh: Path) -> None:
    program = fresh.parent / "my python*" / "python3"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\ncase "$*" in *venv*ensurepip*) exit 0 ;; *) echo "called with $*"; exit 3 ;; esac\n')
    program.chmod(0o755)
    done = launch(fresh, RAYCADE_PYTHON=str(program), RAYCADE_BUILD="cpu")
    assert "needs Python" not in done.stderr
    assert f"called with -m venv {fresh.parent}/.venv" in done.stdout


def test_an_unknown_build_is_named(fresh: Path) -> None:
    done = launch(fresh, RAYCADE_BUILD="tpu")
    assert done.returncode == 1
    assert "RAYCADE_BUILD=tpu: must be gpu or cpu" in done.stderr


def stand_in(fresh: Path, pip: str) -> None:
    """Put a .venv beside launch.sh whose python only notes how it was called; ``pip`` is run for its installations."""
    program = fresh.parent / ".venv" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\necho "$@" >>"{fresh.parent}/calls"\ncase "$*" in *pip*) {pip} ;; esac\n')
    program.chmod(0o755)


def calls(fresh: Path) -> list[str]:
    return (fresh.parent / "calls").read_text().splitlines()


def test_it_installs_once_and_then_goes_straight_to_work(fresh: Path) -> None:
    stand_in(fresh, pip="echo 'WARNING: Location x is ignored'; echo 'WARNING: a real one'")
    first = launch(fresh, RAYCADE_BUILD="cpu")
    assert "installing raycade[cpu]" in first.stderr
    assert "a real one" in first.stderr
    assert "ignored" not in first.stderr
    again = launch(fresh, "suite=kumo", "model=oracle", RAYCADE_BUILD="cpu")
    assert "installing" not in again.stderr
    launch(fresh, "report", "runs/x", RAYCADE_BUILD="cpu")
    launch(fresh, "--version", RAYCADE_BUILD="cpu")
    installation, *work = calls(fresh)
    assert "pip install" in installation and "constraints.txt" in installation
    assert work == ["-P -m cluster run", "-P -m cluster run suite=kumo model=oracle", "-P -m cluster report runs/x",
                    "-P -m cluster --version"]  # fmt: skip


def test_no_python_is_started_that_runs_modules_of_the_folder_one_stands_in() -> None:
    root = LAUNCH.parent
    sources = [path for package in ("cluster", "evals", "envs") for path in (root / package).rglob("*.py")]
    starts = [
        (path.name, line.strip())
        for path in (LAUNCH, root / "cluster" / "launch" / "slurm.sh", *sources)
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r'python" (-P )?-m cluster|sys\.executable,( "-P",)? "-m"|%s (-P )?-m cluster', line)
    ]
    assert {"launch.sh", "slurm.sh", "nodes.py"} <= {name for name, _ in starts}
    assert [line for line in starts if "-P" not in line[1]] == []


def test_a_changed_setup_or_another_build_is_reinstalled(fresh: Path) -> None:
    stand_in(fresh, pip="true")
    launch(fresh, "setup", RAYCADE_BUILD="cpu")
    launch(fresh, "setup", RAYCADE_BUILD="cpu")
    assert len(calls(fresh)) == 1
    launch(fresh, "setup", RAYCADE_BUILD="gpu")
    assert "[gpu,dev]" in calls(fresh)[-1]
    with (fresh.parent / "setup.py").open("a") as setup:
        setup.write("# changed\n")
    launch(fresh, "setup", RAYCADE_BUILD="gpu")
    assert len(calls(fresh)) == 3


def test_what_to_do_when_pip_finds_no_torch(fresh: Path) -> None:
    stand_in(fresh, pip="echo 'ERROR: No matching distribution found for torch==2.13.0+cpu' >&2; exit 1")
    done = launch(fresh, RAYCADE_BUILD="cpu")
    assert done.returncode == 1
    assert "PIP_EXTRA_INDEX_URL" in done.stderr
    assert "No matching distribution" in done.stderr
    assert len(calls(fresh)) == 1, "nothing is run after a failed installation"
