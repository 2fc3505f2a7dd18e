"""A model's files on the hub and in its cache: listed, downloaded so that a stopped download goes on, and checked by hash.

The layout of the cache is the hub's own: ``models--ORG--NAME/{blobs,refs,snapshots}``. A file of weights is written under its
hash with ``.part`` behind it, compared with that hash, and renamed only then, so that what lies in ``blobs`` is whole. The
hub's client begins anew with each file that another process has left unfinished; here it goes on with its bytes.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import shutil
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from huggingface_hub import HfApi, constants, hf_hub_download, hf_hub_url
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.file_download import http_get, repo_folder_name
from huggingface_hub.hf_api import RepoSibling
from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

from cluster.doctor.check import first_words, gib
from cluster.errors import RunFailedError, UserError
from cluster.storage.durable import write_durably
from envs.files import Bounds, FileError, read_json
from envs.printable import printable

OTHER_FORMATS = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx", ".gguf", ".tflite", ".ot")
"""Weights in formats that are left out where there are safetensors."""
HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
"""SHA-1 as git has it, or SHA-256; also the only names that files of the cache get from the hub."""
INDEX_BOUNDS = Bounds(16 * 2**20, 32, 1_000_000)
HUB_SECONDS = 30.0
SPARE_BYTES = 2**28
"""Room that must stay free."""
PIECE = 2**22


class Incomplete(Exception):  # noqa: N818 - a state, not an error
    """The cache lacks files; the message says which."""


@dataclass(frozen=True)
class HubFile:
    """One file of a model."""

    name: str
    size: int
    sha256: str
    """Of files of weights, which the hub stores apart; empty for others."""
    git_id: str
    """As git would name its content."""

    @property
    def blob(self) -> str:
        """Its name in the cache."""
        return self.sha256 or self.git_id


@dataclass(frozen=True)
class Listing:
    """A model at one commit."""

    id: str
    commit: str
    files: tuple[HubFile, ...]

    @property
    def folder(self) -> Path:
        """Its folder in the cache."""
        return folder_of(self.id)

    @property
    def lacking(self) -> int:
        """Bytes that are still to be downloaded."""
        return sum(file.size - _there(self.folder / "blobs" / file.blob, file.size) for file in self.files)


def folder_of(id: str) -> Path:
    """A model's folder in the cache."""
    return Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=id, repo_type="model")


def _there(blob: Path, size: int) -> int:
    """Bytes of a file that are in the cache, a part of it counted."""
    if blob.is_file():
        return size
    part = part_of(blob)
    return min(size, part.stat().st_size) if part.is_file() else 0


def part_of(blob: Path) -> Path:
    """Where the beginning of a file lies as long as it is not whole."""
    return blob.with_name(f"{blob.name}.part")


def cached_folder(id: str, revision: str) -> Path:
    """The folder with a model's files in the cache, which has all that its index of weights names.

    Raises:
        Incomplete: something is not there.
    """
    home = folder_of(id)
    reference = home / "refs" / revision
    commit = reference.read_text().strip() if reference.is_file() else revision
    folder = home / "snapshots" / commit
    if not (folder / "config.json").exists():
        raise Incomplete(f"{id} ({revision}) is not in the cache {constants.HF_HUB_CACHE}")
    index = folder / "model.safetensors.index.json"
    # Weights in one file have no index.
    if not index.exists():
        has_weights = any(folder.glob("*.safetensors")) or any(folder.glob("*.bin"))
        if not has_weights:
            raise Incomplete(f"the cache has the settings of {id}, but no weights")
        return folder
    try:
        named = set(read_json(index, INDEX_BOUNDS)["weight_map"].values())
    except (FileError, KeyError, TypeError, AttributeError) as error:
        raise Incomplete(f"{index} cannot be read: {first_words(str(error))}") from error
    lacking = []
    for name in named:
        file = folder / PurePosixPath(str(name)).name
        if not file.exists():
            lacking.append(name)
    lacking.sort()
    if lacking:
        raise Incomplete(f"the cache lacks {len(lacking)} of {len(named)} files of weights ({lacking[0]})")
    return folder


def listed(id: str, revision: str) -> Listing:
    """What the hub has of a model, other formats of the same weights left out.

    Raises:
        UserError: the hub does not give it; the message says what to do.
    """
    if not _is_name(revision):
        raise UserError(f"--revision {printable(revision)}: is no name of a branch, a tag or a commit")
    try:
        info = HfApi().model_info(id, revision=revision, files_metadata=True, timeout=HUB_SECONDS)
    except Exception as error:
        found, mend = explained(error, id)
        raise UserError(f"{found}. {mend[:1].upper()}{mend[1:]}") from error
    siblings = info.siblings or []
    offered = [_file_of(each) for each in siblings]
    names = [file.name for file in offered]
    wanted = set(_wanted(names))
    files = tuple(file for file in offered if file.name in wanted)
    commit = info.sha or ""
    if not _verifiable(commit, files):
        raise UserError(
            f"{id}: {endpoint()} gave no commit, no hashes of its files, or invalid file names, "
            "so the download cannot be verified"
        )
    return Listing(id, commit, files)


def _file_of(sibling: RepoSibling) -> HubFile:
    sha256 = sibling.lfs.sha256 if sibling.lfs else ""
    return HubFile(sibling.rfilename, sibling.size or 0, sha256, sibling.blob_id or "")


def _verifiable(commit: str, files: Sequence[HubFile]) -> bool:
    """Whether commit and files have hashes, sizes, and names that lead to no other folder."""
    if not HASH.fullmatch(commit):
        return False
    for file in files:
        if not _is_name(file.name) or not HASH.fullmatch(file.blob):
            return False
        if type(file.size) is not int or file.size < 0:
            return False
    return True


def _is_name(name: str) -> bool:
    """Whether a hub's name of a file or a branch leads to nothing outside of its folder, and is plain text."""
    parts = PurePosixPath(name).parts
    leads_out = ".." in parts or name.startswith("/")
    return bool(parts) and not leads_out and "\\" not in name and name.isprintable()


def _wanted(names: Sequence[str]) -> Iterator[str]:
    """The files that vLLM reads: no second format of the same weights, and nothing of folders that only others read."""
    read = [name for name in names if not _is_for_others(PurePosixPath(name))]
    has_safetensors = any(name.endswith(".safetensors") for name in read)
    for name in read:
        is_second_format = has_safetensors and PurePosixPath(name).suffix in OTHER_FORMATS
        if not is_second_format:
            yield name


def _is_for_others(path: PurePosixPath) -> bool:
    """Whether a file lies in a folder that vLLM does not read."""
    return len(path.parts) > 1 and path.parts[0] in ("original", "onnx", "coreml", "openvino")


def check_model(listing: Listing) -> None:
    """See that there is something to be used: settings, and weights beside them.

    Raises:
        UserError: there is not.
    """
    names = [file.name for file in listing.files]
    has_weights = any(name.endswith((".safetensors", ".bin")) for name in names)
    if not has_weights or "config.json" not in names:
        raise UserError(f"{listing.id}: is no model that vLLM reads: it has no config.json, or no weights beside it")


def check_room(listing: Listing) -> None:
    """See that what is lacking fits the disk.

    Raises:
        UserError: it does not.
    """
    where = Path(constants.HF_HUB_CACHE)
    while not where.exists():
        where = where.parent
    free = shutil.disk_usage(where).free
    if listing.lacking + SPARE_BYTES > free:
        raise UserError(
            f"{listing.id}: {gib(listing.lacking)} are to be downloaded, and {where} has {gib(free)} free "
            f"({gib(SPARE_BYTES)} of it to be left); make room, or set HF_HOME to a folder on another disk"
        )


def download(listing: Listing, say: Any) -> Path:
    """Download what is lacking, check every file against its hash, and make the commit the one of the branch.

    Args:
        listing: What to download.
        say: Called with a line about each file.

    Returns:
        The folder with the files.

    Raises:
        UserError: another process downloads the same file.
        RunFailedError: a file is not what its hash says, or the hub stopped answering; the same command goes on.
    """
    blobs = listing.folder / "blobs"
    blobs.mkdir(parents=True, exist_ok=True)
    # What is small is there first, should the network fail.
    for file in sorted(listing.files, key=lambda each: each.size):
        blob = blobs / file.blob
        before = _there(blob, file.size)
        if file.sha256 and not blob.is_file():
            _get(listing, file, blob)
        link = listing.folder / "snapshots" / listing.commit / file.name
        try:
            if not link.exists():
                hf_hub_download(listing.id, file.name, revision=listing.commit)
        except Exception as error:
            found, mend = explained(error, listing.id)
            raise RunFailedError(f"{file.name}: {found}. {mend[:1].upper()}{mend[1:]}") from error
        _check(link, file)
        how = ""
        if before == file.size:
            how = " (was there)"
        elif 0 < before < file.size:
            how = f", from byte {before:,} on"
        say(f"{file.name}: {gib(file.size)}{how}, hash checked")
    return listing.folder / "snapshots" / listing.commit


def pin(listing: Listing, revision: str) -> None:
    """Make the commit the one that a branch stands for in the cache, as the hub's client does."""
    if revision != listing.commit:
        reference = listing.folder / "refs" / revision
        reference.parent.mkdir(parents=True, exist_ok=True)
        write_durably(reference, listing.commit.encode())


def _get(listing: Listing, file: HubFile, blob: Path) -> None:
    """Download a file of weights, from where an earlier try stopped, and give it its name when its hash is right."""
    part = part_of(blob)
    url = hf_hub_url(listing.id, file.name, revision=listing.commit)
    with _alone(part):
        size = part.stat().st_size
        while size < file.size:
            before = size
            try:
                with part.open("r+b") as target:
                    target.seek(0, 2)
                    http_get(url, target, resume_size=size, headers=build_hf_headers(), expected_size=file.size)
            except Exception as error:
                size = part.stat().st_size
                if size > before and not isinstance(error, HfHubHTTPError):
                    continue  # this try has brought something, and so may the next one
                found, mend = explained(error, listing.id)
                raise RunFailedError(
                    f"{file.name}: {found}. {gib(size)} of {gib(file.size)} are there; the same command goes on with them. "
                    f"{mend[:1].upper()}{mend[1:]}"
                ) from error
            size = part.stat().st_size
        _check(part, file)
        part.replace(blob)


@contextmanager
def _alone(part: Path) -> Iterator[None]:
    """The only process that writes a file.

    Raises:
        UserError: another one does.
    """
    part.touch()
    with part.open("rb") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"{part.parent.parent.name}: another process downloads it right now; wait for that one"
            ) from None
        yield


def _check(path: Path, file: HubFile) -> None:
    """Compare a file with its hash; a wrong one is removed.

    Raises:
        RunFailedError: it is wrong.
    """
    digest = (
        hashlib.sha256() if file.sha256 else hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    )
    with path.open("rb") as content:
        while piece := content.read(PIECE):
            digest.update(piece)
    if digest.hexdigest() == file.blob:
        return
    blob = path.resolve()
    if path.is_symlink():
        path.unlink()
    blob.unlink(missing_ok=True)
    raise RunFailedError(
        f"{file.name}: its content is not what the hub says it is (hash {digest.hexdigest()[:12]}, expected {file.blob[:12]}); "
        "it was removed. Run the same command again; if it happens twice, a proxy or mirror in between changes it: "
        "set HF_ENDPOINT to another one"
    )


def explained(error: Exception, id: str) -> tuple[str, str]:
    """What an error of the hub's client means, and what to do."""
    has_token = bool(build_hf_headers().get("authorization"))
    status = _status_of(error)
    token = "export HF_TOKEN=... of an account that may read it"
    if isinstance(error, GatedRepoError) or status == 403:
        gated = f"{endpoint()} refuses {id}: it is gated ({status})"
        accept = f"accept the conditions on {endpoint()}/{id} with"
        if has_token:
            return gated, f"{accept} the account of your HF_TOKEN"
        return gated, f"{accept} an account, then {token}"
    if isinstance(error, RevisionNotFoundError):
        return f"{id} has no such revision", "correct model.engine.revision (--revision of raycade fetch)"
    # The hub answers alike for a name that is wrong and for a model that is private.
    if isinstance(error, RepositoryNotFoundError) or status == 401:
        return f"{endpoint()} has no {id}, or hides it ({status})", f"correct the name; if it is private, {token}"
    if status == 429:
        wait = "wait some minutes and do it again"
        if not has_token:
            wait += "; with HF_TOKEN set more is allowed"
        return f"{endpoint()} had too many requests (429)", f"{wait}. Fetch once, then HF_HUB_OFFLINE=1 for all nodes"
    if status:
        return f"{endpoint()} failed ({status})", "do it again later"
    if isinstance(error, OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set", "unset HF_HUB_OFFLINE"
    if isinstance(error, HFValidationError):
        return f"{id} is no id of a model", "write ORGANIZATION/NAME, or a name of `raycade models`"
    if isinstance(error, OSError) and error.filename is not None:
        where = printable(str(error.filename))
        return f"{where}: {error.strerror}", "remove what is in its place, or set HF_HOME to another folder"
    if isinstance(error, ValueError) and "proxy" in str(error).lower():  # its address may hold a password
        return "a proxy of the environment cannot be used", "write http://, https:// or socks5:// before its address"
    if isinstance(error, (TypeError, LookupError, AttributeError, json.JSONDecodeError)):
        return (
            f"{endpoint()} gave an answer that cannot be read",
            "do it again later, or set HF_ENDPOINT to another one",
        )
    # What is left has no answer of the hub in it.
    reached = (
        "a network or a proxy (https_proxy), another HF_ENDPOINT, or `raycade fetch` where there is a network: then copy "
        "HF_HOME and set HF_HUB_OFFLINE=1"
    )
    kind = type(error).__name__
    what = "no answer from" if "Connect" in kind else "the connection broke to"
    return f"{what} {endpoint()}: {first_words(str(error) or kind, 80)}", reached


def _status_of(error: Exception) -> int:
    """The status of the hub's answer; 0 where there is none."""
    if not isinstance(error, HfHubHTTPError) or error.response is None:
        return 0
    return error.response.status_code


def endpoint() -> str:
    """The hub's address without anything secret in it."""
    url = urllib.parse.urlsplit(constants.ENDPOINT)
    port = f":{url.port}" if url.port else ""
    return f"{url.scheme}://{url.hostname}{port}"
