"""Other games than the open ones: sealed games that nobody can have been trained on, and games to train on.

Sealed games are drawn from a secret. Its hash is published first, the secret itself when all have played. A secret has 256
random bits, so the hash tells nothing about it. Games to train on come in numbered blocks, each as large as the plan.
"""

from __future__ import annotations

import functools
import hashlib
import re
import secrets
from pathlib import Path

from envs.files import FileError, absolute_path, read_bytes

PREFIX = "sealed:"
"""As in ``suite.seeds=sealed:FILE``."""
TRAINING = "training:"
"""As in ``suite.seeds=training:3``, block 3 of the games to train on."""
_BLOCK = re.compile(rf"{TRAINING}\d{{1,18}}")
_SECRET = re.compile(r"raycade-challenge-1 ([0-9a-f]{64})")
_LARGEST = 1_000
"""Bytes of a file with a secret."""


def new_secret() -> str:
    """The content of a file with a new secret."""
    return f"raycade-challenge-1 {secrets.token_hex(32)}\n"


def read_secret(path: Path) -> str:
    """The secret of a file.

    Raises:
        ValueError: there is none; the message does not quote the file.
    """
    try:
        text = read_bytes(path, _LARGEST).decode("ascii")
    except FileError as error:
        raise ValueError(f"{path}: cannot be read as a challenge: {error.reason}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: cannot be read as a challenge: is not ASCII") from None
    found = _SECRET.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{path}: is no challenge; `raycade challenge new FILE` writes one")
    return found[1]


def commitment_of(secret: str) -> str:
    """The SHA-256 that commits to a secret."""
    return hashlib.sha256(bytes.fromhex(secret)).hexdigest()


@functools.lru_cache(maxsize=16)
def seed_parts(seeds: str) -> tuple[str, ...]:
    """What goes into a suite's seeds besides task, level and index: nothing for open games, the secret for sealed ones.

    Args:
        seeds: Empty, ``sealed:FILE``, or ``training:BLOCK``, which is what goes in.

    Raises:
        ValueError: neither, or the file holds no secret.
    """
    if not seeds:
        return ()
    if seeds.startswith(TRAINING):
        return (seeds,)
    return (read_secret(Path(seeds.removeprefix(PREFIX))),)


def checked_seeds(seeds: str, *, drawn: bool) -> str:
    """The setting with its file as an absolute path, since runners may have another working directory.

    Args:
        seeds: As in ``suite.seeds``.
        drawn: Whether the games are drawn from seeds at all, and not read from files.

    Raises:
        ValueError: it is of another form, or the games are not drawn.
    """
    if not seeds:
        return seeds
    if not seeds.startswith(PREFIX) and not _BLOCK.fullmatch(seeds):
        raise ValueError(
            f"seeds={seeds}: must be empty, {PREFIX}FILE with a file of `raycade challenge new`, or {TRAINING}NUMBER"
        )
    if not drawn:
        raise ValueError(f"seeds={seeds}: these games are read from files; there are no others that could be drawn")
    if seeds.startswith(TRAINING):
        return seeds
    return PREFIX + str(absolute_path(seeds.removeprefix(PREFIX), f"seeds={seeds}"))
