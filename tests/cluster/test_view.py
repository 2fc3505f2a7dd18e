"""``raycade view``: which runs it shows, where it listens, and what it says of wrong input."""

import os
import re
import select
import shutil
import signal
import socket
import time
from types import SimpleNamespace
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn
from starlette.testclient import TestClient as AnyClient

from cluster.cli import main
from cluster.commands.view import _Finder, _stopping_of
from cluster.errors import UserError
from evals.ledger.parts import LedgerChangedError, LedgerDamagedError
from evals.players import OraclePlayer
from evals.suites.kumo import KumoSuite
from evals.viewer.index import EpisodeIndex
from evals.viewer.server import Viewer
from tests.viewer_runs import KUMO, calm_rows, rows_of, write_run


@pytest.fixture
def served(monkeypatch):
    """Instead of serving, keeps the app, as it is once the ledgers have been read, and the address it would have."""
    kept = []

    def run(self, sockets):
        kept.append((self.config.app, sockets[0].getsockname()))
        sockets[0].close()

    monkeypatch.setattr(uvicorn.Server, "run", run)
    return kept


def view(*words):
    with pytest.raises(SystemExit) as end:
        main(["view", *map(str, words)])
    return end.value.code


def address_in(text):
    return re.search(r"http://\S+", text)[0]


def TestClient(app):  # noqa: N802 - addresses this machine by a name that the viewer knows
    return AnyClient(app, base_url="http://localhost")


def test_it_listens_on_this_machine_only_and_asks_for_the_token_that_it_prints(tmp_path, served, capsys):
    path = write_run(tmp_path / "run", *calm_rows())
    assert view(path) == 0
    ((app, (host, port)),) = served
    address = address_in(capsys.readouterr().out)
    assert host == "127.0.0.1" and address.startswith(f"http://127.0.0.1:{port}/?token=")
    assert len(address.partition("token=")[2]) >= 32
    assert TestClient(app).get("/").status_code == 403
    client = TestClient(app)
    assert client.get(address.partition(str(port))[2]).status_code == 200
    (cookie,) = client.cookies
    assert str(port) in cookie  # two viewers on one host do not throw each other out
    assert client.get("/api/state").json()["runs"][0]["path"] == str(path)


def test_a_second_ctrl_c_while_it_ends_changes_nothing(tmp_path, monkeypatch):
    def run(self, sockets):
        sockets[0].close()
        raise KeyboardInterrupt

    ended = []

    def close(self):
        os.kill(os.getpid(), signal.SIGINT)
        ended.append(True)

    monkeypatch.setattr(uvicorn.Server, "run", run)
    monkeypatch.setattr("cluster.commands.view.Viewer.close", close)
    write_run(tmp_path / "run", *calm_rows())
    assert view(tmp_path / "run") == 0 and ended


def test_without_a_name_it_shows_all_runs_in_the_folder(tmp_path, monkeypatch, served, capsys):
    write_run(tmp_path / "runs" / "one", *calm_rows())
    write_run(tmp_path / "runs" / "sweep" / "two", *calm_rows())
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "plan.parquet").write_text("")
    monkeypatch.chdir(tmp_path)
    assert view("--no-token") == 0
    said = capsys.readouterr()
    assert "token" not in address_in(said.out) and "broken" in said.err
    runs = TestClient(served[0][0]).get("/api/state").json()["runs"]
    assert {run["name"] for run in runs} == {"one", "two"}


def test_names_that_are_not_utf_8_hide_no_run(tmp_path, monkeypatch, served, capsys):
    sound = write_run(tmp_path / "runs" / "sound", *calm_rows())
    odd = write_run(tmp_path / "runs" / "odd", *calm_rows()).rename(tmp_path / "runs" / os.fsdecode(b"caf\xe9"))
    (sound / "episodes" / os.fsdecode(b"part-000002-\xe9.parquet")).write_text("no part")
    monkeypatch.chdir(tmp_path)
    assert view("--no-token") == 0
    assert "not UTF-8" in capsys.readouterr().err
    client = TestClient(served[0][0])
    for path in ("state", "values", "episodes", "cells", "causes", "results", "difficulty", "live", "study"):
        answer = client.get(f"/api/{path}")
        assert answer.status_code == 200, (path, answer.text)
    [run] = client.get("/api/state").json()["runs"]
    assert run["name"] == "sound" and run["done"] == len(calm_rows()[1])
    assert "part-000002-\udce9.parquet" in " ".join(run["damage"])
    assert view(odd) == 2 and "not UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "said"),
    [(b"episodes/part-000002-\xe9.parquet", "may be sound"), (b".lease-" + b"9" * 30, "no lease has such a number")],
)
def test_pages_lack_nothing_that_only_cannot_be_opened_here(name, said, tmp_path, capsys):
    path = write_run(tmp_path / "run", *calm_rows())
    (path / os.fsdecode(name)).touch()
    assert view(path, "--export", tmp_path / "pages") == 2
    assert said in capsys.readouterr().err and not (tmp_path / "pages").exists()


def test_a_run_that_is_still_being_copied_is_named_once_and_shown_when_it_is_there(tmp_path, monkeypatch, capsys):
    path = write_run(tmp_path / "runs" / "one", *calm_rows())
    whole = (path / "config.yaml").read_text()
    monkeypatch.chdir(tmp_path)
    find = _Finder([])
    for part in ("", "", "["):
        (path / "config.yaml").write_text(part)
        assert find() == []
    assert capsys.readouterr().err.count("warning") == 2, "once for each thing that is wrong with it"
    (path / "config.yaml").write_text(whole)
    [found] = find()
    assert found.name == "one" and find() == []


def test_a_run_that_takes_the_place_of_another_is_shown_with_its_own_suite(tmp_path):
    path = write_run(tmp_path / "run", *calm_rows())
    viewer = Viewer(EpisodeIndex(_Finder([path])()))
    viewer.refresh()
    before = viewer.results.results("")["boards"]
    shutil.rmtree(path)
    kumo = KumoSuite(domains=["medical"], difficulties=["easy"], tasks_per_domain=1)
    write_run(path, *rows_of(kumo, {"oracle": OraclePlayer()}), {"type": "kumo", **KUMO, "tasks_per_domain": 1})
    whole = (path / "config.yaml").read_text()
    (path / "config.yaml").unlink()  # as it is while the folder is copied
    viewer.refresh()
    [run] = viewer.index.status()
    assert "no config.yaml" in " ".join(run["damage"]) and run["players"] == [] and run["done"] == 0
    (path / "config.yaml").write_text(whole)
    viewer.refresh()
    [run] = viewer.index.status()
    assert (run["players"], run["done"], run["damage"]) == (["oracle"], run["planned"], [])
    boards = viewer.results.results("")["boards"]
    assert len(before) == 3 and [board["suite"] for board in boards] == ["kumo"]
    assert [part.name for part in viewer.index.runs[0].suite().parts] == ["kumo"]


def test_runs_of_one_name_are_told_apart(tmp_path, served):
    paths = [write_run(tmp_path / parent / "run", *calm_rows()) for parent in ("a", "b")]
    assert view(*paths, "--no-token") == 0
    client = TestClient(served[0][0])
    runs = client.get("/api/state").json()["runs"]
    assert len({run["name"] for run in runs}) == 2
    for run in runs:
        (row,) = client.get("/api/episodes", params={"run": run["name"], "count": 1}).json()["rows"]
        opened = client.get("/api/episode", params={"at": f"{run['name']}/{row['episode_id']}"})
        assert opened.status_code == 200 and opened.json()["folder"] == run["path"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["nowhere"], "nowhere"),
        ([], "runs/"),
        (["run", "--port", "99999999"], "99999999"),
        (["run", "--host", "no.such.invalid"], "no.such"),
    ],
)
def test_wrong_input_is_named_and_ends_with_code_2(tmp_path, monkeypatch, served, capsys, words, named):
    write_run(tmp_path / "run", *calm_rows())
    monkeypatch.chdir(tmp_path)
    assert view(*words) == 2
    assert named in capsys.readouterr().err and not served


@pytest.mark.slow
def test_ctrl_c_ends_it_without_a_further_word_though_half_a_note_is_open(tmp_path, launch):
    log = tmp_path / "log"
    process = launch("view", str(write_run(tmp_path / "run", *calm_rows())), log=log)
    while process.poll() is None and "Ctrl-C ends." not in log.read_text():
        time.sleep(0.1)
    address = urlsplit(address_in(log.read_text()))
    with httpx.Client(follow_redirects=True) as client:
        client.get(address.geturl())  # it serves, and has its own handler of the signal
        cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    assert cookies
    head = f"POST /api/notes HTTP/1.1\r\nHost: {address.netloc}\r\nOrigin: http://{address.netloc}\r\nCookie: {cookies}\r\n"
    with socket.create_connection((address.hostname, address.port)) as half:
        half.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 500\r\n\r\n{{".encode())
        assert not select.select([half], [], [], 0.5)[0], "the rest of the note is waited for"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert log.read_text().endswith("Ctrl-C ends.\n")


def test_what_a_stopping_rule_says_is_asked_again_when_the_ledger_has_grown(tmp_path):
    looks, parts = [], tmp_path / "episodes"
    parts.mkdir()

    class Looked:
        path = tmp_path

        def refresh(self):
            looks.append("refresh")

        @property
        def stopping(self):
            looks.append("look")
            if isinstance(state[0], Exception):
                raise state[0]
            return state[0]

    lines = _stopping_of(Looked())
    state = [SimpleNamespace(lines=lambda: ["open after 1 game"])]
    (parts / "part-1.parquet").touch()
    assert lines() == () and looks == [], "there is no rule"
    (tmp_path / "stopping.json").touch()
    for _ in range(2):
        assert lines() == ("open after 1 game",) and looks == ["refresh", "look"]
    (parts / "part-2.parquet").touch()
    for error in (UserError("wrong"), LedgerChangedError("changed"), LedgerDamagedError([])):
        state[0] = error
        assert lines() == ("open after 1 game",)
    assert looks == 4 * ["refresh", "look"]
    state[0] = SimpleNamespace(lines=lambda: ["decided"])
    assert lines() == ("decided",), "what could not be read is looked at again"
    (parts / "part-3.parquet").touch()
    state[0] = None
    assert lines() == ()
