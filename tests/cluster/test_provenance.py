"""Sessions of a run: what they were played with, and which of them belong to one retry."""

import hashlib
import importlib.metadata
import os
import platform
import subprocess
from types import SimpleNamespace

import pytest

from cluster.errors import UserError
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


@pytest.mark.parametrize("limit", ["MOST_SESSIONS", "MOST_BYTES"])
def test_a_run_that_was_started_too_often_is_not_started_and_can_still_be_read(tmp_path, now, monkeypatch, limit):
    for _ in range(3):
        begin_session(tmp_path, {"suite": "x"})
    size = (tmp_path / provenance.VERSIONS).stat().st_size
    most = {"MOST_SESSIONS": 3, "MOST_BYTES": size + 50 + provenance.ROOM_FOR_ENGINES}
    monkeypatch.setattr(provenance, limit, most[limit])
    with pytest.raises(UserError, match="would hold 4 sessions, one for each start"):
        begin_session(tmp_path, {"suite": "x"})
    assert len(read_versions(tmp_path)) == 3


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


@pytest.fixture
def git(monkeypatch):
    """Runs git as a user without settings; the user's repository is none of the machine's."""

    def run(folder, *arguments):
        who = ["-c", "user.name=u", "-c", "user.email=u@x"]
        done = subprocess.run(["git", "-C", folder, *who, *arguments], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    for name in [each for each in os.environ if each.startswith("GIT_")]:
        monkeypatch.delenv(name)
    return run


def a_repository(git, folder, ignored=""):
    """A new repository with one commit of all that is in its folder; returns the commit."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text(ignored)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "one")
    return git(folder, "rev-parse", "HEAD")


def installed_at(monkeypatch, root):
    """Have raycade's files in this folder; returns the one that asks for the commit."""
    file = root / "cluster" / "storage" / "provenance.py"
    file.parent.mkdir(parents=True)
    file.write_text("x = 1\n")
    monkeypatch.setattr(provenance, "__file__", str(file))
    return file


def test_the_commit_tells_what_differs_from_it(monkeypatch, git, tmp_path):
    file = installed_at(monkeypatch, tmp_path)
    commit = a_repository(git, tmp_path)
    assert provenance._commit() == commit
    file.write_text("x = 2\n")
    difference = subprocess.run(["git", "-C", tmp_path, "diff", "HEAD"], check=True, capture_output=True).stdout
    assert provenance._commit() == f"{commit}+{hashlib.blake2b(difference, digest_size=4).hexdigest()}"


@pytest.mark.parametrize("place", ["site", "."])
def test_the_commit_of_a_repository_around_an_installation_is_not_raycade_s(monkeypatch, git, tmp_path, place):
    installed_at(monkeypatch, tmp_path / place)
    a_repository(git, tmp_path, ignored="cluster")
    assert provenance._commit() is None


def test_git_s_own_variables_name_no_other_repository(monkeypatch, git, tmp_path):
    installed_at(monkeypatch, tmp_path / "raycade")
    commit = a_repository(git, tmp_path / "raycade")
    a_repository(git, tmp_path / "thesis")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "thesis" / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "thesis"))
    assert provenance._commit() == commit


@pytest.mark.parametrize("error", [FileNotFoundError("git"), subprocess.CalledProcessError(128, "git")])
def test_outside_a_checkout_there_is_no_commit(monkeypatch, error):
    def run(*arguments, **options):
        raise error

    monkeypatch.setattr(provenance.subprocess, "run", run)
    assert provenance._commit() is None
