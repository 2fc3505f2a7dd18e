"""What the files of a run directory are read as, and with which words they are refused, as on record."""

import asyncio
import dataclasses
import itertools
import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from cluster.commands.resume import Resume
from cluster.commands.run import _check_versions
from cluster.storage import kept_output, provenance, run_directory, stored_run, stored_shapes, surroundings
from cluster.storage.lock import LeaseLostError
from cluster.storage.run_directory import RunDirectory
from cluster.storage.shard import read_shard, shard_of
from cluster.storage.spending import MergedPart, Spending, SpendingJournal, check_journal, read_spending, write_spending
from cluster.storage.stored_run import Run
from evals.ledger.parts import Damage
from tests.cluster.test_ledger import PLAN, rows
from tests.cluster.test_observe import episode
from tests.said import Said


@pytest.fixture
def said(capsys, tmp_path):
    return Said(capsys, tmp_path)


def test_what_was_spent(said, tmp_path, monkeypatch):
    path = tmp_path / "spending.json"
    parts = '"merged": [{"sessions": ["a", 5], "total": 2}, {"sessions": [], "total": 0.5}]'
    for text in (
        *(
            None,
            "",
            "{}",
            "[]",
            '{"spent": 1.25}',
            '{"spent": "x"}',
            '{"spent": NaN}',
            '{"spent": -1}',
            '{"spent": null}',
        ),
        *(
            '{"spent": true}',
            '{"spent": "5"}',
            '{"spent": 1' + 400 * "0" + "}",
            '{"spent": 1, "in_flight": -1}',
            "[" * 100_000,
        ),
        *(
            '{"spent": 1, "highest": Infinity}',
            '{"spent": 1, "in_flight": [2]}',
            '{"spent": 3, "in_flight": 0.5, "highest": 0.25}',
        ),
        *(
            f'{{"spent": 3, "in_flight": 1, {parts}}}',
            f'{{"spent": 1, {parts}}}',
            '{"spent": 1, "merged": [{"total": 1}]}',
        ),
        *('{"spent": 1, "merged": [{"sessions": [], "total": -1}]}', '{"spent": 9007199254740993}', '{"spent": 0}'),
    ):
        if text is not None:
            path.write_text(text)
        found = said.tried((text or "nothing")[:60], read_spending, tmp_path)
        if isinstance(found, Spending):
            said(f"total {found.total:g}, own {found.own:g}")
    for text, cost in (
        *((None, 0.0), (None, 1.5), ('{"spent": 1.0, "in_flight": 0.5}', 1.5), ('{"spent": 1.49}', 1.5)),
        *(('{"spent": 0}', 0.0), ('{"spent": 0}', 1e-7), ('{"spent": 1.4999999999}', 1.5), ("[", 0.0)),
    ):
        path.unlink(missing_ok=True)
        if text:
            path.write_text(text)
        for capped in (True, False):
            said.tried(f"check {text} {cost} {capped}", check_journal, tmp_path, cost, capped)
    path.unlink()
    path.symlink_to("nowhere")
    said.tried("a link", read_spending, tmp_path)
    path.unlink()

    def taken_over():
        raise LeaseLostError("another driver")

    journal = SpendingJournal(tmp_path, said.calls("check"))
    journal.write()
    said("without accounts", path.exists())
    for session in range(3):
        for engine, account in (
            ("a", Spending(1.0, 0.5, 0.25)),
            ("b", Spending(2.0, 0.0, 0.125)),
            ("b", Spending(2.5)),
        ):
            journal.note(engine, account)
            said.tried("write", journal.write)
            said(path.read_text(), journal.now)
        journal.write()
        said("as before")
        if session == 0:
            path.write_text(f'{{"spent": 3, "in_flight": 1, "highest": 9, {parts}}}')
        journal = SpendingJournal(tmp_path, said.calls("check"))
        journal.note("c", Spending(-100.0 if session else -1.5))
        said("later", journal.now)
    with monkeypatch.context() as disk:
        disk.setattr("cluster.storage.spending.write_durably", lambda *given: (_ for _ in ()).throw(OSError("full")))
        said.tried("full", journal.write)
    journal.write()
    said("no longer full", path.read_text(), SpendingJournal(tmp_path, taken_over).before)
    other = SpendingJournal(tmp_path, taken_over)
    other.note("d", Spending(1.0))
    with pytest.raises(LeaseLostError):
        other.write()
    said(path.read_text(), Spending(1.0, merged=(MergedPart(("a",), 3.0),)).own)
    write_spending(tmp_path, Spending(1.5, 0.25, 0.125, (MergedPart(("a", "b"), 1.0),), ("retest-1",)))
    said(path.read_text())
    said.check("spending")


def test_sessions(said, tmp_path, monkeypatch):
    retries = {"a": {"id": "a"}, "b": {"id": "b", "retry": "b", "complete": True}, "c": {"id": "c", "retry": "c"}}
    retries |= {
        "d": {"id": "d", "retry": "c"},
        "e": {"id": "e", "retry": "e"},
        "f": {"id": "f", "retry": "c", "complete": True},
    }
    for names in ("", "a", "ab", "bacd", "cdea", "cdf", "fe"):
        said("retry", names, provenance.unfinished_retry([retries[name] for name in names]))
    now = {"git_commit": "b", "python": "3.11", "torch": "2"}
    monkeypatch.setattr(provenance, "versions", lambda: now)
    around = {"template": "t", "packages": {"torch": "2", "odd": "1"}, "weights": "w"}
    monkeypatch.setattr(provenance, "surroundings", lambda config, commit: {**around, "weights": commit})
    sessions = [
        {"id": "one", "git_commit": "a", "python": "3.11", "torch": "2"},
        {"id": "two", "git_commit": "b", "python": "3.11", "torch": "1", "vllm": "0.1"},
        {"id": "three", "git_commit": "c", "torch": "2", "surroundings": {**around, "packages": {"torch": "1"}}},
        {
            "id": "four",
            **now,
            "surroundings": around,
            "engines": {"r": {"model_runner": "V1"}, "s": {"model_runner": "V2"}},
        },
    ]
    for played in ((), ("one",), ("one", "two"), ("two", "three"), ("three",), ("four",), ("none",)):
        said("changes", played, provenance.changes(sessions, played, {}, "w"))
    said("no sessions", provenance.changes([], ["one"], {}), provenance.changes(sessions, ["four"], {}, "x"))
    for some in ([], sessions[:1], sessions[:2], sessions, sessions[3:], [{"python": "3.12"}, {"python": "3.11"}]):
        said("mixtures", provenance.mixtures(some))
    for strict in (False, True):
        for changed in ((), ("vllm 2 (earlier 1)", "torch 3")):
            said.tried("versions", _check_versions, Resume([], {}, (), changed, (), 0), strict)
    said.tried("no versions", provenance.read_versions, tmp_path)
    many = json.dumps([{}] * 10_001)
    for text in (
        "{",
        "{}",
        '[{"id": "a"}, 3]',
        '"text"',
        '[{"id": "a", "name": "ü"}]',
        many,
        many[:-5] + "]",
        '[{"id": 5}]',
    ):
        (tmp_path / provenance.VERSIONS).write_text(text, encoding="utf-8")
        said.tried(text[:30], lambda: str(provenance.read_versions(tmp_path))[:60])
    provenance.write_versions(tmp_path, [{"id": "b", "name": "ü", "began": "x"}])
    said((tmp_path / provenance.VERSIONS).read_text(encoding="utf-8"))
    for name in ("began", "surroundings", "engines", "config"):
        provenance.write_versions(tmp_path, [{"id": "b"}, {"id": "b", name: "2026-13-01"}])
        said.tried(name, stored_run.read_sessions, tmp_path)

    said.check("sessions")


def test_what_surrounds_a_session(said, tmp_path, monkeypatch):
    monkeypatch.setattr(surroundings, "_packages", lambda: {"numpy": "1"})
    monkeypatch.setattr(surroundings, "_gpus", lambda: "H100, 570.1")
    for name in [name for name in os.environ if name.startswith("VLLM_")]:
        monkeypatch.delenv(name)
    for name in ("VLLM_USE_X", "VLLM_API_KEY", "XVLLM"):
        monkeypatch.setenv(name, "secret")
    own, hub = tmp_path / "own", tmp_path / "hub/models--org--name"
    snapshot = hub / "snapshots/abc123"
    for folder in (own, snapshot, hub / "refs"):
        folder.mkdir(parents=True)
    (hub / "refs/main").write_text("abc123\n")
    for name in ("tokenizer.json", "chat_template.jinja", "config.json", "b.safetensors", "a.safetensors"):
        (own / name).write_text(name)
    (snapshot / "vocab.json").write_text("{}")
    for variables in ({"HF_HUB_CACHE": tmp_path / "hub"}, {"HF_HOME": tmp_path}, {"HF_HOME": tmp_path / "none"}):
        for name in ("HF_HUB_CACHE", "HF_HOME"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, str(value))
        for engine, commit in (
            *(
                ({"model": "org/name"}, ""),
                ({"model": "org/name", "revision": "abc123"}, ""),
                ({"model": "org/name"}, "c0"),
            ),
            *(
                ({"model": str(own)}, ""),
                ({"model": str(own)}, "c1"),
                ({}, ""),
                (None, "c2"),
                ({"model": "other/name"}, ""),
            ),
        ):
            found = surroundings.surroundings({"model": {"engine": engine}}, commit)
            said(engine, commit, {name: value for name, value in found.items() if name not in ("gpus", "packages")})
    before = {
        **surroundings.surroundings({"model": {"engine": {"model": str(own)}}}),
        "variables": {"A": "1", "B": "2"},
    }
    (own / "config.json").write_text("other")
    (own / "chat_template.jinja").unlink()
    for later in (before, surroundings.surroundings({"model": {"engine": {"model": str(own)}}}), {}):
        for told in (
            [],
            [{"surroundings": before}],
            [{"surroundings": {}}, {"surroundings": before}, {"surroundings": None}, {}],
        ):
            said("differs", "".join(f"\n  {each}" for each in surroundings.differences(told, later)))
    said.check("surroundings")


def test_what_is_installed_here(said, tmp_path, monkeypatch):
    texts = [
        {"METADATA": "Name: NumPy\nVersion: 2.0\n\nVersion: 9 in its description"},
        {"PKG-INFO": "Metadata-Version: 2\nName: old\nVersion: 1\n"},
        *({"METADATA": "Name: no version\n"}, {"METADATA": "Version: 5\n"}, {}),
        {"METADATA": "Name: numpy\nVersion: 1.0\n"},
    ]
    found = [SimpleNamespace(read_text=lambda name, each=each: each.get(name)) for each in texts]
    monkeypatch.setattr(surroundings.importlib.metadata, "distributions", lambda: found)
    said(surroundings._packages.__wrapped__())
    for printed in (" H100, 570.1 \nH200, 570.2\n", "", OSError(), subprocess.TimeoutExpired("x", 20)):

        def run(command, printed=printed, **how):
            said(command, how)
            if isinstance(printed, Exception):
                raise printed
            return SimpleNamespace(stdout=printed)

        monkeypatch.setattr(surroundings.subprocess, "run", run)
        said(surroundings._gpus())
    cache = tmp_path / ".cache/huggingface/hub/models--org--m"
    (cache / "snapshots/c1").mkdir(parents=True)
    (cache / "refs").mkdir()
    (cache / "refs/main").write_text("c1")
    for name in ("HF_HUB_CACHE", "HF_HOME"):
        monkeypatch.delenv(name, raising=False)
    for home in (tmp_path, None):
        monkeypatch.setattr(surroundings, "home_folder", lambda home=home: home)
        said(surroundings._model_folder("org/m", "main"), surroundings._model_folder("org/m", "c2"))
    said(run_directory._create(tmp_path / "new/run"), run_directory._create(tmp_path / "new/run"))
    said.check("installed")


def test_a_run_directory_is_read(said, tmp_path):
    for name in ("broken", "wronk"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "plan.parquet").write_text("PAR")
    for place in (tmp_path, tmp_path / "wrong", tmp_path / "broken", tmp_path / "far/away"):
        said(f"at {place}")
        said.tried("begun", Run(place).check_begun)
        said.tried("config", lambda place=place: Run(place).config)
    path = tmp_path / "broken"
    for text in (
        "[",
        "a: 1",
        "- suite",
        "suite: 1",
        "suite: {a: 1}\nmodel: {engine: {prompt_price: -1}}",
        "suite: {a: 1}\nname: x",
    ):
        (path / "config.yaml").write_text(text)
        said.tried(text, lambda: Run(path).config)
    said.tried("no timings", lambda: Run(path).timings)
    (path / stored_run.TIMINGS).write_text(
        '{"turns": 1}\n[\n\n{"turns": "x"}\n{"use": {"r": {"slots": 1}}}\n[1]\n{"turns": NaN}\n'
    )
    said.tried("timings", lambda: Run(path).timings)
    said(Run(path).spent, Run(path / "none").ledger_cost)
    for count in (1, 20, 21, 22):
        text = str(
            stored_run.damaged("RUN" if count > 1 else "", [Damage(Path(f"p{n}"), f"why {n}") for n in range(count)])
        )
        said("\n".join([*text.splitlines()[:2], *text.splitlines()[-3:]]))
    (path / "episodes").mkdir()
    for link, to in (
        ("inside", path),
        ("episodes/in", path / "config.yaml"),
        (".lock", "/"),
        ("episodes/out", tmp_path),
    ):
        (path / link).symlink_to(to)
        said.tried(link, stored_run.check_links, path)

    said.check("run_reading")


def test_a_run_directory_is_written(said, tmp_path, monkeypatch):
    alike, others = [episode(n) for n in range(2)], [episode(n, f"p{n}") for n in range(5)]
    for theirs, ours in (
        (alike, others),
        (others, alike),
        (alike, [episode(1), episode(2), episode(3)]),
        (others[:4], others[:3]),
        (alike, [dataclasses.replace(alike[0], **{name: "x"}) for name in ("suite", "task", "level", "mode")]),
    ):
        said(run_directory._other_plan(Path("RUN"), theirs, ours))
    for name, files in (
        *(
            ("new", None),
            ("empty", []),
            ("logs", ["logs"]),
            ("locked", [".lock"]),
            ("others lock", [".lock", "x"]),
            ("mine", ["thesis"]),
        ),
        ("died", [".lock", ".lease-1", "config.yaml", "logs"]),
    ):
        if files is not None:
            (tmp_path / name).mkdir()
        for each in files or ():
            (tmp_path / name / each).touch()
        said.tried(name, RunDirectory(tmp_path / name).check_plan, alike)
    said.tried("a file", RunDirectory(tmp_path / "mine/thesis").check_plan, alike)
    said.tried("twice", RunDirectory(tmp_path / "new").check_plan, [*alike, *alike])
    directory = RunDirectory(tmp_path / "run")
    directory.path.mkdir()
    directory.begin(alike, {"config.yaml": "suite: {a: 1}\nname: é\n", "further": "text"})
    directory.begin(others, {"config.yaml": "other", "later": "text"})
    said(
        sorted(each.name for each in directory.path.iterdir()),
        (directory.path / "config.yaml").read_text(),
        len(Run(directory.path).plan),
    )
    for section in ({"a": 1}, {"a": 2, "b": "é"}):
        directory.write_suite(section)
        said((directory.path / "config.yaml").read_text())
    for gone in ((), ("plan.parquet",), ("config.yaml", "plan.parquet")):
        for each in gone:
            (directory.path / each).unlink()
        directory.keep_description()
        said(gone, len(Run(directory.path).plan), (directory.path / "config.yaml").read_text())
    for plan in (alike, alike[::-1], others, alike[:1], [*alike, episode(2)], [*alike, alike[0]]):
        said.tried(len(plan), RunDirectory(directory.path).check_plan, plan)
    monkeypatch.setattr(directory, "check_claim", said.calls("check claim"))
    directory.sessions = [{"id": "a"}, {"id": "b", "engines": {"r": {"x": 1}}}]
    for session, engines in (
        ("b", {"r": {"x": 1}}),
        ("b", {"s": {"y": 2}, "r": {"x": 1}}),
        ("a", {}),
        ("none", {"r": {}}),
    ):
        directory.session = session
        directory.note_engines(engines)
        said(session, directory.sessions)
    for session in ("a", "none"):
        directory.complete_session(session)
        said(Run(directory.path).sessions)

    said.check("run_writing")


def test_parts_of_a_run(said, tmp_path, monkeypatch):
    numbers, clock = itertools.count(), SimpleNamespace(now=0.0)
    monkeypatch.setattr(
        run_directory, "secrets", SimpleNamespace(token_hex=lambda size: f"{next(numbers):0{2 * size}x}")
    )
    monkeypatch.setattr(run_directory, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(run_directory.compaction, "FAN", 3)
    sessions = itertools.count(1)
    new_session = lambda config, retry, commit: {"id": f"s{next(sessions)}", "told": f"{config} {retry} {commit}"}  # noqa: E731
    monkeypatch.setattr(run_directory.provenance, "new_session", new_session)
    whole = asyncio.run(rows(PLAN))
    path = tmp_path / "run"

    def look(*words):
        shown = [
            each
            for each in sorted(tmp_path.rglob("*"))
            if not {".lock", ".leases"} & {*each.relative_to(tmp_path).parts}
        ]
        said(
            *words,
            *(
                each.relative_to(tmp_path)
                for each in shown
                if not each.is_dir() or each.is_symlink() or not any(each.iterdir())
            ),
        )

    for logs in (False, True):
        if logs:
            (path / "logs").mkdir(parents=True)
            (path / "logs/replica-0.log").touch()
        directory = RunDirectory(path)
        directory.claim()
        look("claimed", directory._created)
        directory.discard()
        directory.release()
        look("discarded")
    directory = RunDirectory(path)
    directory.claim()
    directory.begin(PLAN, {"config.yaml": "suite: {a: 1}\n"})
    directory.begin_session({"b": 2}, "again", "c0ffee")
    look("begun", directory.session, directory.sessions, directory.planned.num_rows, len(directory.plan))
    directory.attempts = {PLAN[1].id: 1, PLAN[2].id: 4}

    def committed(*chosen):
        written = directory.commit(whole.take(list(chosen)))
        found = Run(path).ledger.table(["episode_id", "attempt", "session"]).to_pylist()
        told = [
            (int(PLAN.index(next(e for e in PLAN if e.id == row["episode_id"]))), *list(row.values())[1:])
            for row in found
        ]
        look("committed", written.name, told)

    committed(0, 1)
    directory.compact()
    look("too few")
    committed(2)
    durable = run_directory.write_durably

    def full(place, content):
        durable(place, content)
        raise OSError("no answer")

    with monkeypatch.context() as disk:
        disk.setattr(run_directory, "write_durably", full)
        said.tried("fails", directory.commit, whole.take([3]))
    look("doubtful", directory._doubtful and directory._doubtful.name)
    committed(3)
    directory.compact()
    look("merged", [(when, [part.name for part in parts]) for when, parts in directory._replaced])
    clock.now = run_directory.KEEP_REPLACED_SECONDS - 1
    directory.compact()
    look("kept")
    committed(4)
    directory.compact(everything=True)
    look("all merged")
    directory.discard()
    look("nothing is discarded")
    clock.now += 1
    directory.remove_replaced()
    look("the first ones go")
    (path / "episodes/.x.0123abcd.tmp").touch()
    (path / ".of a user.tmp").touch()
    (path / ".folder.0123abcd.tmp").mkdir()
    (path / ".link.0123abcd.tmp").symlink_to(path / "logs")
    directory.release()
    look("released")
    directory.begin_session({})
    directory = RunDirectory(path)
    directory.claim()
    look("claimed again", directory._created, directory.session, [each["id"] for each in directory.sessions])
    committed(5)
    (path / "config.yaml").unlink()
    directory.begin(PLAN[:1], {"config.yaml": "suite: {b: 1}\n", "more": "text"})
    said((path / "config.yaml").read_text(), len(Run(path).plan), Run(path).episodes().num_rows)
    directory.release()
    (path / f"episodes/part-{10**14}-x.parquet").touch()
    said.tried("too high", RunDirectory(path).claim)
    said.check("run_parts")


def test_shapes_shards_and_outputs(said, tmp_path, monkeypatch):
    shapes = {
        "StoredConfig": [
            {},
            {"suite": {}},
            {"suite": {}, "model": {"name": 1}},
            {"suite": {}, "model": {"engine": None}},
        ]
    }
    shapes["StoredConfig"] += [
        {"suite": {}, "model": {"name": "m", "sampling": {"max_tokens": n}}} for n in (-1, 0, 2**53, 2**53 + 1, 1.0)
    ]
    shapes["StoredConfig"] += [
        {"suite": {}, "decoding": 1},
        {"suite": {}, "model": [1]},
        {"suite": {}, "model": {"name": "m", "engine": 5}},
        {"suite": {}, "model": {"name": "m", "engine": {"prompt_price": float("nan")}}},
        {"suite": {}, "model": {"name": "m", "engine": {"type": 1, "completion_price": -1}}},
        {"suite": {}, "tracker": []},
        {"suite": {}, "name": "n", "x" * 99: 1},
    ]
    shapes["StoredSession"] = [
        {},
        {"id": "a"},
        {"id": "a", "began": "2026-01-01"},
        {"id": "a", "began": "x"},
        {"id": "a", "n": [1]},
    ]
    shapes["StoredSession"] += [
        {"id": "a", "engines": {"r": {"x" * 99: float("inf")}}},
    ]
    shapes["StoredTimings"] = [
        {},
        {"a": 1, "use": {"r": {"s": 2.5}}},
        {"a": "1"},
        {"a": 2**54},
        {"use": {"r": {"s": None}}},
        5,
    ]
    for shape, values in shapes.items():
        for value in values:
            said(shape, str(value)[:70], stored_shapes.wrong_shape(getattr(stored_shapes, shape), value))
    for shard in ("1/1", "2/8", "8/8", "9/8", "0/2", "1/0", "a/b", 2, "1/1234567890", "2/3 ", "-1/2"):
        said.tried(shard, read_shard, shard)
    numbered = [SimpleNamespace(id=f"{number:012x}") for number in range(7)]
    said([[int(each.id, 16) for each in shard_of(numbered, shard)] for shard in (None, "1/3", "3/3", "2/2")])
    monkeypatch.setenv("MY_TOKEN", "12345678")
    monkeypatch.setenv("SHORT_KEY", "1234567")
    outputs = {
        "short": "a 12345678 b 1234567",
        "long": "\n".join(f"line {n}" for n in range(201)),
        "bytes": "é" * 2**17 + "é",
    }
    for name, text in outputs.items():
        (tmp_path / name).write_bytes(text.encode() + b"\xff" * (name == "short"))
        shown = kept_output.last_lines([str(tmp_path / name)])
        said(name, len(shown), repr(shown[:25]), repr(shown[-12:]))
    said(repr(kept_output.last_lines([str(tmp_path / "short")] * 2)))
    said.check("run_shapes")
