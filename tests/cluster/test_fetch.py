"""`raycade fetch` with Hugging Face's own client, against a hub on this machine."""

import fcntl
import hashlib
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from huggingface_hub import constants
from huggingface_hub.errors import HfHubHTTPError

from cluster.cli import main
from cluster.doctor import weights
from cluster.doctor.weights import HubFile, Listing, download, pin
from cluster.errors import RunFailedError, UserError
from tests.cluster.conftest import ROOT
from tests.cluster.hub_stub import COMMIT, FILES, WEIGHTS, Hub, _git_id, hub

TEN = 10 * 2**20


def fetch(stub: Hub, home: Path, **environment: str) -> subprocess.CompletedProcess:
    names = {"HF_ENDPOINT": stub.address, "HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1", **environment}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    command = [sys.executable, "-m", "cluster", "fetch", "org/model"]
    return subprocess.run(command, env=kept | names, cwd=ROOT, capture_output=True, text=True, check=False)


def folder(home: Path) -> Path:
    return home / "hub" / "models--org--model"


@pytest.mark.slow
def test_a_broken_transfer_goes_on_in_the_next_process_and_the_commit_is_pinned(tmp_path):
    with hub() as stub:
        stub.break_after, stub.down_after_break = TEN + 5, True
        broken = fetch(stub, tmp_path)
        assert broken.returncode == 1 and "10.0 MiB of 24.0 MiB are there; the same command goes on" in broken.stderr
        assert not (folder(tmp_path) / "snapshots" / COMMIT / "model.safetensors").exists()

        stub.break_after, stub.down_after_break, stub.status = TEN + 5, False, 0
        done = fetch(stub, tmp_path)
        assert done.returncode == 0, done.stderr
        # From where the first process stopped, and again from where the second one's connection broke.
        assert [first for first, _ in stub.sent] == [0, TEN, 2 * TEN]
    assert (folder(tmp_path) / "snapshots" / COMMIT / "model.safetensors").read_bytes() == WEIGHTS
    assert (folder(tmp_path) / "refs" / "main").read_text() == COMMIT
    assert not list(folder(tmp_path).glob("blobs/*.part"))
    assert not (folder(tmp_path) / "snapshots" / COMMIT / "pytorch_model.bin").exists()  # the same weights as a pickle
    assert f"export HF_HOME={tmp_path} HF_HUB_OFFLINE=1" in done.stdout and COMMIT in done.stdout

    # What it printed holds: the hub's own client finds the files without a network.
    asked = "from huggingface_hub import snapshot_download; print(snapshot_download('org/model'))"
    offline = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    found = subprocess.run([sys.executable, "-c", asked], env=offline, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == str(folder(tmp_path) / "snapshots" / COMMIT)


@pytest.fixture
def stub(tmp_path, monkeypatch) -> Iterator[Hub]:
    """A hub to which the client of this process is turned."""
    with hub() as state:
        monkeypatch.setattr(constants, "ENDPOINT", state.address)
        template = "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", state.address + template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield state


def ended(capsys) -> tuple[int, str]:
    """Exit code and errors of the command in this process."""
    with pytest.raises(SystemExit) as end:
        main(["fetch", "org/model"])
    return end.value.code, capsys.readouterr().err


class Network:
    """What comes of each request for weights: bytes, then perhaps an error."""

    def __init__(self, home: Path, files: dict[str, bytes]) -> None:
        self.home, self.files, self.asked = home, files, []
        self.script: list[tuple[int, Exception | None]] = []

    def get(self, url, target, resume_size, headers, expected_size) -> None:
        (name,) = (each for each in self.files if url.endswith(f"/{COMMIT}/{each}"))
        assert target.tell() == resume_size and expected_size == len(FILED[name])
        self.asked.append((name, resume_size))
        most, error = self.script.pop(0) if self.script else (10**6, None)
        target.write(self.files[name][resume_size : resume_size + most])
        if error is not None:
            raise error

    def link(self, id, name, revision) -> None:
        assert (id, revision) == ("org/model", COMMIT)
        if name == "config.json":
            (self.home / "blobs" / _git_id(FILED[name])).write_bytes(self.files[name])
        (file,) = (each for each in FILE if each.name == name)
        place = self.home / "snapshots" / COMMIT / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(self.home / "blobs" / file.blob)


FILED = {"model-2.safetensors": bytes(range(200)), "config.json": b"{}", "model-1.safetensors": bytes(range(100))}
FILE = tuple(
    HubFile(name, len(text), hashlib.sha256(text).hexdigest() if "model" in name else "", _git_id(text))
    for name, text in FILED.items()
)


@pytest.fixture
def network(tmp_path, monkeypatch) -> Network:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    made = Network(folder(tmp_path), dict(FILED))
    monkeypatch.setattr(weights, "http_get", made.get)
    monkeypatch.setattr(weights, "hf_hub_download", made.link)
    return made


LISTING = Listing("org/model", COMMIT, FILE)
BROKEN = ConnectionError("reset by peer")


def test_a_download_goes_on_where_it_broke_as_long_as_each_try_brings_something(network, tmp_path):
    said: list[str] = []
    network.script = [(30, BROKEN), (50, BROKEN), (20, None), (10, BROKEN), (0, BROKEN)]
    assert LISTING.lacking == 302
    with pytest.raises(
        RunFailedError, match=r"model-2.safetensors: .*10 bytes of 200 bytes are there; the same command goes on"
    ):
        download(LISTING, said.append)
    assert network.asked == [
        *(("model-1.safetensors", first) for first in (0, 30, 80)),
        *(("model-2.safetensors", first) for first in (0, 10)),
    ]
    assert said == ["config.json: 2 bytes, hash checked", "model-1.safetensors: 100 bytes, hash checked"], (
        "small ones first"
    )
    assert LISTING.lacking == 190
    said.clear()
    assert download(LISTING, said.append) == folder(tmp_path) / "snapshots" / COMMIT
    assert said == [
        *("config.json: 2 bytes (was there), hash checked", "model-1.safetensors: 100 bytes (was there), hash checked"),
        "model-2.safetensors: 200 bytes, from byte 10 on, hash checked",
    ]
    assert LISTING.lacking == 0 and not [*folder(tmp_path).glob("blobs/*.part")]
    for name, text in FILED.items():
        assert (folder(tmp_path) / "snapshots" / COMMIT / name).read_bytes() == text
    pin(LISTING, COMMIT)
    assert not (folder(tmp_path) / "refs").exists()
    pin(LISTING, "main")
    assert (folder(tmp_path) / "refs" / "main").read_text() == COMMIT


def test_what_is_refused_while_it_is_sent_is_not_asked_again_at_once(network):
    refused = HfHubHTTPError("no", response=httpx.Response(503, request=httpx.Request("GET", "http://h")))
    network.script = [(30, refused)]
    with pytest.raises(RunFailedError, match=r"failed \(503\)\. 30 bytes of 100 bytes are there"):
        download(LISTING, lambda line: None)
    assert len(network.asked) == 1


@pytest.mark.parametrize("name", FILED)
def test_a_file_that_is_not_what_its_hash_says_is_removed(name, network, tmp_path):
    network.files[name] = FILED[name][:-1] + b"\0"
    with pytest.raises(RunFailedError, match=f"{name}: its content is not what the hub says it is"):
        download(LISTING, lambda line: None)
    place = folder(tmp_path) / "snapshots" / COMMIT / name
    assert not place.is_symlink() and not place.exists()
    (file,) = (each for each in FILE if each.name == name)
    assert not [*folder(tmp_path).glob(f"blobs/{file.blob}*")]
    network.files[name] = FILED[name]
    download(LISTING, lambda line: None)


def test_one_process_alone_downloads_a_file(network, tmp_path):
    part = folder(tmp_path) / "blobs" / f"{FILE[2].sha256}.part"
    part.parent.mkdir(parents=True)
    with part.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="another process downloads it right now"):
            download(LISTING, lambda line: None)
    assert network.asked == []
    download(LISTING, lambda line: None)


def test_refusals_name_their_remedy(stub, capsys, monkeypatch):
    stub.status, stub.error_code = 403, "GatedRepo"
    assert "gated (403). Accept the conditions on" in ended(capsys)[1]
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_test")
    said = ended(capsys)[1]
    assert "the account of your HF_TOKEN" in said and "hf_of_the_test" not in said
    stub.status, stub.error_code = 429, ""
    assert "too many requests (429). Wait some minutes" in ended(capsys)[1]


def test_what_does_not_fit_the_disk_is_refused_before_it_starts(tmp_path, stub, capsys):
    stub.claimed_size = 10**15
    code, said = ended(capsys)
    assert code == 2 and "931,323 GiB are to be downloaded" in said and "set HF_HOME" in said
    assert stub.sent == [] and not folder(tmp_path).exists()


@pytest.mark.parametrize("name", ["../../../outside.json", "/outside.json"])
def test_a_name_that_leads_out_of_the_cache_is_refused(name, stub, capsys, monkeypatch):
    monkeypatch.setitem(FILES, name, b"{}")
    code, said = ended(capsys)
    assert code == 2 and "invalid file names" in said


@pytest.mark.parametrize("name", ["", ".", "a\x1b[2J.safetensors", "..\\..\\outside.json"])
def test_a_name_that_is_none_or_would_speak_to_the_terminal_is_refused(name, stub, capsys, monkeypatch):
    monkeypatch.setitem(FILES, name, b"{}")
    code, said = ended(capsys)
    assert code == 2 and "invalid file names" in said and "\x1b" not in said


@pytest.mark.parametrize("size", ["5000", -5, True])
def test_a_size_that_is_none_is_refused(size, stub, capsys):
    stub.claimed_size = size
    code, said = ended(capsys)
    assert code == 2 and "cannot be verified" in said and stub.sent == []


@pytest.mark.parametrize("left", [(), ("config.json", "tokenizer.json"), ("model.safetensors",)])
def test_what_is_no_model_is_not_said_to_be_one(left, stub, capsys, monkeypatch):
    for name in set(FILES) - {*left}:
        monkeypatch.delitem(FILES, name)
    code, said = ended(capsys)
    assert code == 2 and "no model that vLLM reads" in said


@pytest.mark.parametrize("revision", ["../../../outside", "/outside", "", "a\nb"])
def test_a_revision_that_leads_out_of_the_cache_is_refused(revision, stub, tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        main(["fetch", "org/model", f"--revision={revision}"])
    assert end.value.code == 2 and "no name of a branch" in capsys.readouterr().err
    assert stub.sent == [] and not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_trouble_of_this_machine_is_not_told_as_that_of_the_network():
    said, mend = weights.explained(FileExistsError(17, "File exists", "cache/a\x1bfile"), "org/model")
    assert said == "cache/a\\x1bfile: File exists" and "HF_HOME" in mend
    for error in (TypeError("string indices"), KeyError("sha"), json.JSONDecodeError("no JSON", "", 0)):
        assert "an answer that cannot be read" in weights.explained(error, "org/model")[0]
    assert "connection broke" in weights.explained(httpx.ReadError("reset"), "org/model")[0]
    proxy = ValueError("Unknown scheme for proxy URL URL('socks://me:pass-word@proxy')")
    said, mend = weights.explained(proxy, "org/model")
    assert said == "a proxy of the environment cannot be used" and "socks5://" in mend
    assert "connection broke" in weights.explained(ssl.SSLCertVerificationError("self-signed"), "org/model")[0]
    assert "reset by peer" in weights.explained(ConnectionResetError(104, "reset by peer"), "org/model")[0]
