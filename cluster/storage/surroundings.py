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

from envs.files import FileError, read_bytes, read_text

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
    engine = (config.get("model") or {}).get("engine") or {}
    found: dict[str, Any] = {
        "gpus": _gpus(),
        "variables": {
            name: value for name, value in os.environ.items() if name.startswith("VLLM_") and not SECRET.search(name)
        },
        "packages": _packages(),
    }
    folder = _model_folder(str(engine.get("model") or ""), commit or str(engine.get("revision") or "main"))
    if commit:
        found["weights"] = commit
    if folder is not None:
        found["weights"] = folder.name if folder.parent.name == "snapshots" else _hash_of_sizes(folder)
        found["tokenizer"] = _hash_of_files(folder, TOKENIZER_FILES)
        found["template"] = _hash_of_files(folder, TEMPLATE_FILES)
    return found


def differences(sessions: Sequence[Mapping[str, Any]], now: Mapping[str, Any]) -> list[str]:
    """What is different now than in the latest of these sessions that has noted it, one text for each.

    Args:
        sessions: As stored, in their order; those of older versions have noted nothing.
        now: Of ``surroundings``.
    """
    noted = [session.get("surroundings") for session in sessions]
    known = [each for each in noted if isinstance(each, Mapping)]
    if not known:
        return []
    before, found = known[-1], []
    for name, words in NAMES.items():
        old, new = before.get(name), now.get(name)
        if name in OF_SEVERAL:
            noted_then = old if isinstance(old, Mapping) else {}  # a stored file may hold anything
            found += [f"{words} {text}" for text in _changed(noted_then, new or {})]
        elif old != new:
            found.append(f"{words}: {_text(new)} (earlier {_text(old)})")
    return found


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


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
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
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache/huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub") / f"models--{model.replace('/', '--')}"
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
