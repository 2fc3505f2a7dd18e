"""Sessions of a run: what they were played with, and which of them belong to one retry."""

import dataclasses
import hashlib
import importlib.metadata
import platform
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from cluster.commands.resume import Resume
from cluster.commands.run import _check_versions
from cluster.errors import UserError
from cluster.storage import provenance
from cluster.storage.provenance import (
    VERSIONS,
    changes,
    mixtures,
    read_versions,
    unfinished_retry,
    write_versions,
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


def test_only_the_session_that_ended_is_complete(tmp_path, now):
    first, second = begin_session(tmp_path, {}), begin_session(tmp_path, {})
    complete_session(tmp_path, second)
    assert [(each["id"], each.get("complete")) for each in read_versions(tmp_path)] == [(first, None), (second, True)]


def test_a_retry_names_the_session_that_began_it(tmp_path, now):
    first = begin_session(tmp_path, {"retry_failed": True})
    second = begin_session(tmp_path, {"retry_failed": True}, retry=first)
    assert [each["retry"] for each in read_versions(tmp_path)] == [first, first]
    assert unfinished_retry(read_versions(tmp_path)) == (first, second)
    complete_session(tmp_path, second)
    assert unfinished_retry(read_versions(tmp_path)) == ()


def test_only_the_latest_retry_counts():
    plain, old = {"id": "a"}, {"id": "b", "retry": "b", "complete": True}
    new = [{"id": "c", "retry": "c"}, {"id": "d", "retry": "c"}]
    assert unfinished_retry([]) == unfinished_retry([plain]) == ()
    assert unfinished_retry([plain, old]) == ()
    assert unfinished_retry([old, plain, *new]) == ("c", "d")
    assert unfinished_retry([*new, {"id": "e", "retry": "e"}, plain]) == ("e",)


def test_changes_are_against_the_sessions_that_played_rows(now):
    sessions = [
        {"id": "one", "git_commit": "a", "python": "3.11", "torch": "2"},
        {"id": "two", "git_commit": "b", "python": "3.11", "torch": "1"},
        {"id": "three", "git_commit": "c", "python": "3.9", "torch": "2"},
    ]
    assert changes(sessions, [], {}) == [] == changes([], ["one"], {})
    [commit] = changes(sessions, ["one"], {})
    assert commit.startswith("git_commit b") and commit.endswith(" a)")
    assert [each.split()[0] for each in changes(sessions, ["one", "two"], {})] == ["git_commit", "torch"]
    assert [each.split()[0] for each in changes(sessions, ["three"], {})] == ["git_commit", "python"]


def test_mixtures_are_what_sessions_differ_in():
    sessions = [{"git_commit": "b", "torch": "2"}, {"git_commit": "a", "torch": "2"}, {"torch": "2"}]
    assert mixtures(sessions) == ["git_commit None, a, b"]
    assert mixtures(sessions[:1]) == mixtures([]) == []
    assert mixtures([{"python": "3.12"}, {"python": "3.11"}]) == ["python 3.11, 3.12"]


def test_no_sessions_are_noted_in_a_new_run(tmp_path):
    assert read_versions(tmp_path) == []


@pytest.mark.parametrize("text", ["{", "{}", '[{"id": "a"}, 3]', '"text"'])
def test_damaged_notes_are_refused_by_name(tmp_path, text):
    (tmp_path / VERSIONS).write_text(text)
    with pytest.raises(UserError, match=VERSIONS):
        read_versions(tmp_path)


def test_notes_are_replaced(tmp_path):
    write_versions(tmp_path, [{"id": "a"}])
    write_versions(tmp_path, [{"id": "b", "name": "ü"}])
    assert read_versions(tmp_path) == [{"id": "b", "name": "ü"}]
    assert "ü" in (tmp_path / VERSIONS).read_text(encoding="utf-8")


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
        assert capture_output and check and command[:2] == ["git", "-C"]
        assert command[2] == Path(provenance.__file__).resolve().parent
        return SimpleNamespace(stdout=answers[tuple(command[3:])])

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


def test_other_versions_are_a_warning_and_with_strict_an_error(capsys):
    resume = Resume([], {}, (), ["vllm 2 (earlier 1)"], ())
    _check_versions(resume, strict=False)
    assert "vllm 2 (earlier 1). Each row records its session" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(UserError, match=r"strict=true: software versions changed .*: vllm 2 \(earlier 1\)"):
        _check_versions(resume, strict=True)
    _check_versions(dataclasses.replace(resume, changes=()), strict=True)
