"""What a run's answers may depend on beyond its settings and raycade itself: weights, tokenizer, template, GPU, packages.

Noted for each session, compared when a run is resumed or repeated. All of it is read on the driver's machine, without loading
a model; on a cluster whose nodes differ, it says nothing of the others.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from envs.files import FileError, home_folder, read_bytes, read_text

SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW", re.IGNORECASE)
"""Names of environment variables whose values must not be stored."""
MOST_BYTES = 2**28
"""Of a file of a tokenizer or a template."""
TEMPLATE_FILES = ("chat_template.jinja", "chat_template.json", "tokenizer_config.json")
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
    "tekken.json",
    "tokenizer_config.json",
)
NAMES = {
    "weights": "commit of the weights",
    "tokenizer": "tokenizer",
    "template": "chat template",
    "gpus": "GPUs and their driver",
    "variables": "variable",
    "packages": "package",
}
"""What people are told that differs."""
OF_SEVERAL = ("variables", "packages")
"""Those that hold several things by name."""
_FIELD = re.compile(r"^(Name|Version):[ \t]*(\S.*?)[ \t\r]*$", re.MULTILINE)
"""Of a package's metadata."""


def surroundings(config: Mapping[str, Any], commit: str = "") -> dict[str, Any]:
    """What is there now for a run of this configuration; what cannot be read is left out.

    Args:
        config: Of the run.
        commit: Of the model's files, where it is known.
    """
    model = config.get("model") or {}
    engine = model.get("engine") or {}
    found: dict[str, Any] = {
        "gpus": _gpus(),
        "variables": _variables(),
        "packages": _packages(),
    }
    revision = commit or str(engine.get("revision") or "main")
    folder = _model_folder(str(engine.get("model") or ""), revision)
    if commit:
        found["weights"] = commit
    if folder is None:
        return found
    # A snapshot in the hub's cache has its commit for a name; a folder of the user's has none.
    if folder.parent.name == "snapshots":
        found["weights"] = folder.name
    else:
        found["weights"] = _hash_of_sizes(folder)
    found["tokenizer"] = _hash_of_files(folder, TOKENIZER_FILES)
    found["template"] = _hash_of_files(folder, TEMPLATE_FILES)
    return found


def differences(sessions: Sequence[Mapping[str, Any]], now: Mapping[str, Any]) -> list[str]:
    """What is different now than in the latest of these sessions that has noted it, one text for each.

    Args:
        sessions: As stored, in their order; those of older versions have noted nothing.
        now: Of ``surroundings``.
    """
    before = _latest_noted(sessions)
    if before is None:
        return []
    found = []
    for name, words in NAMES.items():
        old = before.get(name)
        new = now.get(name)
        if name in OF_SEVERAL:
            found += [f"{words} {text}" for text in _changed(old, new)]
        elif old != new:
            found.append(f"{words}: {_text(new)} (earlier {_text(old)})")
    return found


def _latest_noted(sessions: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    for session in reversed(sessions):
        noted = session.get("surroundings")
        if isinstance(noted, Mapping):
            return noted
    return None


def _variables() -> dict[str, str]:
    """The environment variables of vLLM, without those whose values must not be stored."""
    variables = os.environ.items()
    return {name: value for name, value in variables if name.startswith("VLLM_") and not SECRET.search(name)}


@functools.cache
def _packages() -> dict[str, str]:
    """The installed packages with their versions, from the first lines of their metadata (``Name: numpy``)."""
    found: dict[str, str] = {}
    for each in importlib.metadata.distributions():
        # ``each.name`` would parse the whole file, which has the package's description in it: twenty times as long.
        metadata = each.read_text("METADATA") or each.read_text("PKG-INFO") or ""
        head = dict(_FIELD.findall(metadata.partition("\n\n")[0]))
        if "Name" in head and "Version" in head:
            found.setdefault(head["Name"].lower(), head["Version"])
    return found


def _changed(stored: Any, now: Mapping[str, Any] | None) -> Iterator[str]:
    """What is different now of several things by name, one text for each."""
    # A stored file may hold anything.
    old = stored if isinstance(stored, Mapping) else {}
    new = now or {}
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            yield f"{key} {_text(new.get(key))} (earlier {_text(old.get(key))})"


def _text(value: Any) -> str:
    return "none" if value is None else str(value)


def _gpus() -> str | None:
    """Names of the GPUs with their driver; None without any."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=20, text=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return "; ".join(line.strip() for line in done.stdout.splitlines()) or None


def _model_folder(model: str, revision: str) -> Path | None:
    """Where a model's files are on this machine: its own folder, or its snapshot in the hub's cache; None if nowhere."""
    if not model:
        return None
    if Path(model).is_dir():
        return Path(model)
    # Where the hub's client keeps its cache: HF_HUB_CACHE, else in HF_HOME, else in the user's home. Without a home it takes
    # the sign for one as a name.
    user_home = home_folder() or Path("~")
    home = Path(os.environ.get("HF_HOME") or user_home / ".cache/huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    cache = hub / f"models--{model.replace('/', '--')}"
    # The cache has a file for each branch or tag with the commit that it stands for; a commit stands for itself.
    try:
        commit = (cache / "refs" / revision).read_text().strip()
    except (OSError, ValueError):
        commit = revision
    folder = cache / "snapshots" / commit
    return folder if folder.is_dir() else None


def _hash_of_sizes(folder: Path) -> str:
    """Of a folder without a commit: names and sizes of its weights, and what its config.json says."""
    sizes = sorted((path.name, path.stat().st_size) for path in folder.glob("*.safetensors"))
    config = folder / "config.json"
    try:
        said = read_text(config)
    except FileError:  # there is none, or it is made to harm
        said = ""
    text = json.dumps(sizes) + said
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _hash_of_files(folder: Path, names: Sequence[str]) -> str | None:
    """One hash of those of the files that there are.

    Raises:
        FileError: one is larger than any tokenizer, or cannot be read.
    """
    there = [folder / name for name in names if (folder / name).is_file()]
    if not there:
        return None
    digest = hashlib.blake2b(digest_size=8)
    for path in there:
        digest.update(path.name.encode() + b"\0")
        digest.update(read_bytes(path, MOST_BYTES))
    return digest.hexdigest()
