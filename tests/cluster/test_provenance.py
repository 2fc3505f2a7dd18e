"""Sessions of a run: what they were played with, and which of them belong to one retry."""

import hashlib
import importlib.metadata
import platform
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from cluster.storage import provenance
from cluster.storage.provenance import (
    read_versions,
    unfinished_retry,
)
from cluster.storage.run_directory import RunDirectory


@pytest.fixture
def now(monkeypatch):
    """What everything has as its version now."""
    found = {"git_commit": "b", "python": "3.11", "torch": "2"}
    monkeypatch.setattr(provenance, "versions", lambda: found)
    return found


def begin_session(tmp_path, config, retry=""):
    directory = RunDirectory(tmp_path)
    directory.begin_session(config, retry)
    return directory.session


def complete_session(tmp_path, session):
    RunDirectory(tmp_path).complete_session(session)


def test_a_session_is_noted_with_its_versions_and_settings(tmp_path, now):
    first = begin_session(tmp_path, {"suite": "ü"})
    second = begin_session(tmp_path, {"suite": "ü"})
    sessions = read_versions(tmp_path)
    assert [each["id"] for each in sessions] == [first, second] and first != second
    for each in sessions:
        assert {name: each[name] for name in now} == now and each["config"] == {"suite": "ü"}
        assert "retry" not in each and each["began"].endswith("+00:00")


def test_a_retry_names_the_session_that_began_it(tmp_path, now):
    first = begin_session(tmp_path, {"retry_failed": True})
    second = begin_session(tmp_path, {"retry_failed": True}, retry=first)
    assert [each["retry"] for each in read_versions(tmp_path)] == [first, first]
    assert unfinished_retry(read_versions(tmp_path)) == (first, second)
    complete_session(tmp_path, second)
    assert unfinished_retry(read_versions(tmp_path)) == ()


def test_versions_are_of_python_the_source_and_the_packages_that_are_there(monkeypatch):
    absent = importlib.metadata.PackageNotFoundError

    def version(package):
        if package in ("vllm", "numba"):
            raise absent(package)
        return f"{package} 1"

    metadata = SimpleNamespace(version=version, PackageNotFoundError=absent)
    monkeypatch.setattr(provenance, "importlib", SimpleNamespace(metadata=metadata))
    monkeypatch.setattr(provenance, "_commit", lambda: "abc")
    there = {package: f"{package} 1" for package in provenance.PACKAGES if package not in ("vllm", "numba")}
    assert provenance.versions() == {"python": platform.python_version(), "git_commit": "abc", **there}


@pytest.mark.parametrize("difference", [b"", b"+ a line"])
def test_the_commit_tells_what_differs_from_it(monkeypatch, difference):
    answers = {("diff", "HEAD", "--no-ext-diff"): difference, ("rev-parse", "HEAD"): b"abc\n"}

    def run(command, capture_output, check):
        assert capture_output and check and command[:3] == ["git", "--no-optional-locks", "-C"]
        assert command[3] == str(Path(provenance.__file__).resolve().parent)
        return SimpleNamespace(stdout=answers[tuple(command[4:])])

    monkeypatch.setattr(
        provenance, "subprocess", SimpleNamespace(run=run, CalledProcessError=subprocess.CalledProcessError)
    )
    changed = "+" + hashlib.blake2b(difference, digest_size=4).hexdigest() if difference else ""
    assert provenance._commit() == "abc" + changed


@pytest.mark.parametrize("error", [FileNotFoundError("git"), subprocess.CalledProcessError(128, "git")])
def test_outside_a_checkout_there_is_no_commit(monkeypatch, error):
    def run(*arguments, **options):
        raise error

    monkeypatch.setattr(provenance.subprocess, "run", run)
    assert provenance._commit() is None
