"""What notes, live logs, pages and terminals for people say of odd inputs, as on record in ``tests/golden``."""

import asyncio
import builtins
import dataclasses
import io
import json
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
from rich.console import Console
from starlette.testclient import TestClient

from cluster.storage.stored_run import Run
from envs.picture import Picture
from evals.conversation import PlayedTurn
from evals.human import page, player, terminal
from evals.human.browser import HOST, Browser
from evals.ledger.run_data import RunData
from evals.live import lines, log, running
from evals.live.progress import progress_by_cell
from evals.notes import exchange, note, store, web
from evals.notes.counts import notes_table
from evals.players import RandomPlayer
from evals.types import Episode, PlayerError, Reply, Turn, message
from evals.viewer.index import EpisodeIndex
from evals.viewer.runs import ViewedRun
from evals.viewer.server import Viewer, make_app
from tests.golden import plain
from tests.said import Said
from tests.toy import ToySuite
from tests.viewer_runs import rows_of, write_run


@dataclasses.dataclass(frozen=True)
class Tint(Picture):
    """A picture of one color."""

    wide: int
    high: int
    color: int = 0
    kind = "tint of the rooms"

    @property
    def size(self):
        return self.wide, self.high

    def render(self):
        return np.full((self.high, self.wide, 3), self.color, np.uint8)


def an_episode(index=0, **more):
    return Episode("suite", "task", "hard", "cot", index, 3, 77, "f", 9, player="p", **more)


# --- notes -----------------------------------------------------------------------------------------------------------

ID = "0123456789abcdef"
STORED = {"id": ID, "episode": "ep-1", "tag": "t", "text": "x", "author": "ada", "time": "2031-02-03T04:05:06Z"}


def test_notes(tmp_path, capsys, monkeypatch):
    said = Said(capsys, tmp_path)
    for module in (note, store, exchange):
        monkeypatch.setattr(module, "now", lambda: "2030-01-01T00:00:00Z")
    monkeypatch.setattr(note.secrets, "token_hex", lambda count: "9" * 2 * count)
    for name, values in {
        "id": [ID.upper(), ID[1:], f"{ID}\n", 5],
        "episode": ["", "a b", "x" * 64, "x" * 65],
        "tag": ["t" * 60, "t" * 61, "a\nb", "\x85", "\u2028", "é\ufeff"],
        "text": ["t" * 4000, "t" * 4001, "a\nb\tc", "\r", "\x9f"],
        "author": ["a" * 80, "a" * 81, "", "\x1f"],
        "time": ["2031-02-03T04:05:06", "2031-2-03T04:05:06Z", "9999-99-99T99:99:99Z"],
    }.items():
        for value in values:
            said.tried(
                f"{name} {str(value)[:9]!r}",
                lambda field=name, value=value: note.note_of({**STORED, field: value}) and "is taken",
            )
    said.tried("neither", note.note_of, {**STORED, "tag": "", "text": ""})
    said.tried("without", note.note_of, {"id": ID, "tag": "", "more": 1})
    said.tried("new", note.new_note, "e", " a ", "\nb\n", " c ")
    monkeypatch.setattr(note.getpass, "getuser", lambda: {}["nobody"])
    monkeypatch.setattr(note.os, "getuid", lambda: 7)
    said(note.user_name(), note.is_note_id(ID), note.is_note_id(f"{ID}0"), note.is_note_id(7))

    files = [store.NotesFile(tmp_path / name) for name in ("one", "two", "none")]
    for file in files[:2]:
        file.path.parent.mkdir()
    synced, locked = [], []
    monkeypatch.setattr(store, "sync_directory", synced.append)
    monkeypatch.setattr(
        store.fcntl, "flock", lambda file, how: locked.append(how == store.fcntl.LOCK_EX | store.fcntl.LOCK_NB)
    )
    notes = [
        note.note_of({**STORED, "id": f"{number:016}", "tag": tag})
        for number, tag in enumerate(["=1", "'=2", "", "b", "b"])
    ]
    said("added", files[0].add([*notes[:3], notes[0]]), files[0].add(notes[1:4]), files[0].add([]))
    said.tried("removed", files[0].remove, notes[1].id, "eve")
    said.tried("again", files[0].remove, notes[1].id, "eve")
    said.tried("none", files[0].remove, "x" * 50, "eve")
    said("back", files[0].add([notes[1]]))
    with files[0].path.open("ab") as file:
        file.write(b'{"removed": "%s"}\n\n  \n{"removed": "x"}\n[1]\n{}\nhalf' % ID.encode())
    said("after half a line", files[0].add([notes[4]]))
    said(files[0].path.read_text())
    found = files[0].read()
    said(found.notes, sorted(found.removed), *found.damage)
    said({name: len(found) for name, found in files[0].read().by_episode().items()})
    files[1].add([notes[3]])
    said("joined", files[1].add_from(files[0]), files[1].add_from(files[0]), files[1].add_from(files[2]))
    said(files[1].path.read_text())
    said("synced", *synced, "locked", set(locked), len(locked))
    size = files[1].path.stat().st_size
    line = len(json.dumps(notes[0].to_json())) + 1
    for most in (size + line - 1, size + line):
        monkeypatch.setattr(store, "MOST_BYTES", most)
        said.tried("nearly full", files[1].add, [dataclasses.replace(notes[0], id=ID[::-1])])
    said.tried("no folder", files[2].add, notes)
    said(files[2].read(), files[2].why_not_writable(), files[0].why_not_writable() == "")
    monkeypatch.setattr(store, "MOST_BYTES", 10)
    said("too large", files[0].read())
    monkeypatch.setattr(store, "MOST_BYTES", 10**6)
    (tmp_path / "none").mkdir()
    files[2].path.symlink_to(files[0].path)
    said.tried("a link", files[2].add, [dataclasses.replace(notes[0], id=ID[::-1])])
    files[2].path.unlink()
    files[2].path.mkdir()
    said.tried("a folder", files[2].add, notes)

    odd = [*notes[:3], note.note_of({**STORED, "text": "'' said\n@she, \"ö\"", "author": "-x"})]
    for name in ("a.csv", "a.jsonl", "a.txt"):
        path = tmp_path / name
        text = said.tried(name, exchange.notes_as_text, odd, path)
        path.write_text(text if isinstance(text, str) else "")
        read = said.tried("read", lambda path=path: exchange.read_notes(path, {"ep-1"}, "me") == odd)
        assert read is True or path.suffix == ".txt"
    for name, content in {
        "b.csv": "episode,text\nep-1,x\nep-2,y\n",
        "c.csv": "text\nx\n",
        "d.csv": 'episode,text\nep-1,x\nep-1,"y',
        "e.csv": "",
        "f.csv": "text,more,episode\n'=x,1,ep-1,2\n'x,,ep-1\n",
        "g.jsonl": '{"episode": "ep-1", "tag": "a", "time": null, "author": ""}\n\n[]\n',
        "h.jsonl": '{"episode": "ep-1", "text": 5}\n',
    }.items():
        (tmp_path / name).write_text(content)
        said.tried(name, exchange.read_notes, tmp_path / name, {"ep-1"}, "me")
    said([each.id[-1] for each in exchange.chosen(notes, "b")], len(exchange.chosen(notes, "")))

    rows = [("e1", "m", "s", "done", False), ("e2", "m", "s", "done", True), ("e3", "m", "t", "failed", None)]
    names = ("episode_id", "player", "suite", "status", "success")
    ledger = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
    data = RunData.of_tables(pa.table({"player": ["m", "m"], "suite": ["t", "s"]}), ledger)
    tagged = [dataclasses.replace(notes[2], episode=episode, tag=tag) for episode in ("e1", "e3", "x") for tag in "ba"]
    said(plain(notes_table(data, [*tagged, dataclasses.replace(notes[2], episode="e2")])), notes_table(data, []))
    said.check("notes", "evals")


def test_notes_on_the_page(tmp_path, capsys, monkeypatch):
    said = Said(capsys, tmp_path)
    monkeypatch.setattr(note, "now", lambda: "2030-01-01T00:00:00Z")
    monkeypatch.setattr(store, "now", lambda: "2030-01-01T00:00:00Z")
    tokens = iter("123456789")
    monkeypatch.setattr(note, "secrets", SimpleNamespace(token_hex=lambda count: next(tokens) * 2 * count))
    suite = ToySuite(episodes=2, turns=1)
    path = write_run(tmp_path / "calm", *rows_of(suite, {"random": RandomPlayer()}))
    run = ViewedRun("calm", path, lambda: suite, lambda: Run(path).data)
    run.damage["another file"] = "of another kind"
    index = EpisodeIndex([run])
    notes = web.ViewerNotes(index, "ada")
    viewer = Viewer(index, also=notes.refresh)
    viewer.refresh()
    ids = [row["episode_id"] for row in index.table().to_pylist()]
    app = make_app(viewer, "secret", more=notes.routes())

    def asked(answer):
        text = json.dumps(answer.json()) if answer.content else ""
        said(answer.status_code, text.replace(ids[0], "FIRST").replace(ids[1], "SECOND"))

    def posted(given, headers=("http://localhost",)):
        said(f"> {str(given)[:70]} {headers}".replace(ids[0], "FIRST").replace(ids[1], "SECOND"))
        content = given if isinstance(given, bytes) else json.dumps(given)
        asked(client.post("/api/notes", content=content, headers=[("origin", each) for each in headers]))

    with TestClient(app, base_url="http://localhost", cookies={"raycade": "secret"}) as client:
        at, other = (f"calm/{each}" for each in ids)
        posted({"at": at, "tag": " guess ", "text": "why?", "author": " bob "})
        posted({"at": at, "tag": "a", "author": " "})
        posted({"at": other, "tag": "", "text": "only a text"}, ("https://localhost",))
        posted({"at": at, "remove": "1" * 16, "author": "eve"})
        posted({"at": at, "remove": "7"})
        for wrong in ({"at": at, "tag": 5}, {"at": at, "more": "x"}, [], b"{", b"\xff", {"tag": "x"}, {"at": "calm/x"}):
            posted(wrong)
        for origins in ((), ("http://localhost", "http://localhost"), ("http://other",)):
            posted({"at": at, "tag": "x"}, origins)
        for most in (80, 79):
            monkeypatch.setattr(web, "MOST_POSTED", most)
            posted((b'{"at": "none/x", "tag": "t"' + b" " * 80)[:79] + b"}")
        monkeypatch.setattr(web, "MOST_POSTED", 2**16)
        notes._refusal = "not here"
        posted({"at": at, "tag": "x"})
        for place in (at, other, "calm/none", ""):
            asked(client.get("/api/notes", params={"at": place}))
    said(store.NotesFile(run.path).path.read_text().replace(ids[0], "FIRST").replace(ids[1], "SECOND"))
    store.NotesFile(run.path).path.open("a").write("x\ny\n")
    notes.refresh()
    said(run.damage, index.tags())
    read = []
    monkeypatch.setattr(store.NotesFile, "read", lambda file: read.append(file.path) or store.Notes())
    notes.refresh()
    assert not read, "it has not changed"
    store.NotesFile(run.path).path.unlink()
    notes.refresh()
    said(len(read), run.damage, index.tags())
    said.check("notes_on_the_page", "evals")


# --- live logs -------------------------------------------------------------------------------------------------------


def test_live_lines(capsys, monkeypatch):
    said = Said(capsys)
    for text in ("", "abcdef", "abcdefg", "abcdefghijklé", "\ud800bcdefg"):
        for most in (6, 7):
            said(ascii(lines.shortened(text, most)))
    for name, most in (("PROMPT", 12), ("REPLY", 9), ("REASONING", 6)):
        monkeypatch.setattr(lines, f"{name}_CHARACTERS", most)
    drawn = [SimpleNamespace(description="d" * size) for size in (3, 8000, 8001, 2, 1)]
    first = (message("system", "Rules"), message("user", "One", drawn[0]))
    second = (*first, message("assistant", "said"), message("user", *drawn, "Two", "Three"))
    turns = [
        PlayedTurn(Turn(an_episode(), 0, first), Reply("r" * 9, "stop", 1, 2, 3, 0.5, reasoning="é" * 6, cost=0.25)),
        PlayedTurn(
            Turn(an_episode(), 1, second), Reply("r" * 10, "length", 4, 5, 6, 1.5, reasoning="ab" * 4), "a" * 13, "r"
        ),
    ]
    made = [lines.Began.of(an_episode(2), 1.5)]
    for number, bare in ((0, False), (1, False), (1, True)):
        made.append(lines.PlayedLine.of(turns[number], turns[0] if number else None, 2.5 + len(made), bare=bare))
    made.append(lines.PlayedLine.of(turns[1], None, 9.0))
    made += [lines.Ended("e"), lines.Gone(("e", "f")), lines.Numbers(3.5, {"a": 1.0})]
    for line in made:
        text = lines.written(line)
        said(text.decode().replace("d" * 8000, "d*8000").rstrip(), getattr(line, "size", ""))
        assert lines.read(text) == line
    for text in (b"", b"{}", b'{"kind":"ended"}', b'{"kind":"ended","episode":5}', b'{"kind":"odd","episode":"e"}'):
        said(lines.read(text))
    for count in (32, 33):
        numbers = {str(each): each / 2 for each in range(count)}
        said(count, lines.read(lines.written(lines.Numbers(0.0, numbers))) is not None)

    monkeypatch.setattr(running, "MOST_EPISODES", 2)
    found = running.RunningEpisodes()
    began = [lines.Began(name, "s", "t", "l", "m", 0, 0, "p", 9, 1.0) for name in "abc"]
    played = [
        dataclasses.replace(made[2], episode=name, turn=turn, at=at, reply="r" * size)
        for name, turn, at, size in (("a", 4, 3.0, 1), ("b", 0, 1.0, 2), ("z", 0, 9.0, 3), ("a", 5, 2.0, 4))
    ]
    end = [lines.Ended("b"), lines.Ended("z")]

    def told():
        rows = [
            (name, each.played, [turn.turn for turn in each.turns], each.ended) for name, each in found.episodes.items()
        ]
        said(rows, found.numbers and found.numbers.numbers, [line.kind for line in found.lines()])

    for line in (began[0], *played[:1], began[1], *played[1:], *end, made[-1], began[2]):
        found.add(line)
    told()
    sizes = [turn.size for turn in (played[0], played[3], played[1])]
    for most in (sum(sizes), sum(sizes) - 1, sizes[0] - 1):
        found.trim(most)
        told()
    for line in (dataclasses.replace(began[0], attempt=2), lines.Gone(("b", "none")), began[2]):
        found.add(line)
        told()

    said.check("live_lines", "evals")


def test_reading_live_logs(tmp_path, capsys, monkeypatch):
    said = Said(capsys, tmp_path)
    live = log.LiveLog(tmp_path)
    began = [lines.Began(name, "s", "t", "l", "m", 0, 0, "p", 9, 1.0) for name in "abc"]

    def look(what):
        live.refresh()
        said(what, live.version, live.trouble, list(live.running.episodes))

    def lease(number, text):
        (tmp_path / f".lease-{number}").write_text(text)

    look("nothing")
    lease(1, '{"nonce": "n"}')
    look("no folder")
    (tmp_path / "live").write_text("")
    look("no folder but a file")
    (tmp_path / "live").unlink()
    (tmp_path / "live").mkdir()
    path = log.log_path(tmp_path, "1-n", 1)
    said(path)
    path.write_bytes(lines.written(began[0]) + b"nonsense\n" + lines.written(began[1])[:-1])
    log.log_path(tmp_path, "1-x", 9).write_bytes(lines.written(began[2]))
    look("one and a half")
    look("the same")
    with path.open("ab") as file:
        file.write(b"\n" + lines.written(lines.Gone(("a",))))
    look("more")
    log.log_path(tmp_path, "1-n", 10).write_bytes(lines.written(began[2]))
    log.log_path(tmp_path, "1-n", 2).write_bytes(b"")
    look("the tenth")
    for most in (len(lines.written(began[2])), len(lines.written(began[2])) - 1):
        monkeypatch.setattr(log, "MOST_BYTES", most)
        look(f"at most {most}")
    monkeypatch.setattr(log, "MOST_BYTES", 2**24)
    lease(2, "{")
    look("a lease that cannot be read")
    lease(3, '{"nonce": "m"}')
    look("another lease")

    cell = ("p", "s", "t", "l", "m")
    other = ("q", *cell[1:])
    names = (*("player", "suite", "task", "level", "mode"),)
    plan = pa.table([*zip(other, cell, cell, other, cell, strict=True)], names=names)
    rows = [
        *((*cell, "done", True),) * 2,
        (*cell, "failed", None),
        (*other, "done", False),
        (*other, "done", True),
        ("none", *cell[1:], "done", True),
    ]
    table = pa.table([*map(pa.array, zip(*rows, strict=True))], names=(*names, "status", "success"))
    for each in progress_by_cell(plan, table):
        said(each)
    said.check("live", "evals")


# --- people at a screen ----------------------------------------------------------------------------------------------


def questions():
    """Turns of two games, with pictures, captions and what was said before."""
    tint, other = Tint(3, 2, 200), Tint(200, 9, 10)
    rules = message("system", "The rules: " + "be quick, " * 12, tint, "- be brief " * 9)
    one = (rules, message("user", "One\nA) go\nB: stay\n\nWell?", tint))
    two = (*one, message("assistant", "A"), message("user", "\x1b[31mTwo", other, "B) stay\nA) go"))
    game, later = an_episode(), an_episode(1)
    yield Turn(game, 0, one, ("A", "B"))
    yield Turn(game, 1, two, ("A", "B"))
    yield Turn(game, 2, (rules, message("assistant", "B"), message("user", "Anew", "")), ("1", "2", "three"))
    yield Turn(
        later,
        0,
        (
            message("system", "Others"),
            message("user", "A) go\nA) come"),
        ),
        (),
        ("A",),
    )
    yield Turn(later, 1, (message("user", "A) go\nA) come"),), ("A", "C"))


def test_the_terminal(tmp_path, capsys, monkeypatch):
    said = Said(capsys, tmp_path)
    for name in ("", "a", "p-07", "x" * 32, "x" * 33, "-a", "a_b"):
        said.tried(name, player.human_name, name)
    for name in (
        "human",
        "human_a",
        "human_",
        "human_a_b",
        "humans",
        "person-a1",
        "person-",
        f"person-{'a' * 33}",
        "robot_a",
    ):
        said(name, player.is_human(name))
    asked = player.Questions(
        lambda turn: (*turn.chat[:1], message("user", "In other words")) if turn.number == 2 else turn.chat
    )
    for turn in questions():
        question = asked.of(turn)
        said(plain(question).replace(str(plain(turn.episode)), f"game {turn.episode.index}"))
    try:
        asked.of(Turn(an_episode(), 0, ()))
    except PlayerError as error:
        said(error)
    twice = message("user", "A) go\nB) no", "A) go\nB) no\nend")
    said(asked.of(Turn(an_episode(2), 0, (twice,), ("A", "B"))).shown)
    for typed in ("1", "01", "2", "3", "0", "0001", "999", "-1", "a", "B", "ﬀ", "ff", "", "²"):
        said(typed, terminal.option_index(typed, ("b", "1", "FF")))
    for width, drawn in ((30, False), (200, True)):
        out = io.StringIO()
        shown = terminal.Terminal(tmp_path, Console(file=out, width=width, highlight=False))
        monkeypatch.setattr(terminal, "can_draw", lambda console, drawn=drawn: drawn)
        typed = iter(["0", ":rules", " 1 ", "B", "three", "1", "x", "2"])
        monkeypatch.setattr(builtins, "input", lambda prompt, typed=typed, out=out: out.write(prompt) and next(typed))
        asked = player.Questions(player.words_of_models)
        for number, turn in enumerate(questions(), 1):
            shown.begin(number, 5)
            said("chosen", asyncio.run(shown.ask(asked.of(turn))))
        said(out.getvalue())
    monkeypatch.undo()
    for encoding, color, system in (
        ("utf-8", False, "256"),
        ("UTF8", False, "truecolor"),
        ("latin-1", False, "256"),
        ("utf-8", True, "256"),
        ("utf-8", False, "standard"),
    ):
        for is_terminal in (True, False):
            console = SimpleNamespace(encoding=encoding, is_terminal=is_terminal, no_color=color, color_system=system)
            said(encoding, color, system, is_terminal, terminal.can_draw(console))
    said.check("terminal", "evals")


def test_the_page(capsys, monkeypatch):
    said = Said(capsys)
    monkeypatch.setattr("evals.human.browser.WAIT_SECONDS", 0.01)
    monkeypatch.setattr("evals.human.browser.GOODBYE_SECONDS", 0.01)
    browser = Browser("token")
    client = TestClient(browser.app, base_url=f"http://{HOST}")

    def shown(answer):
        assert {name: answer.headers.get(name) for name in page.HEADERS} == page.HEADERS
        told = answer.content
        if answer.headers.get("content-type") == "application/json":
            told = json.dumps(answer.json(), ensure_ascii=False)
        elif told:
            told = answer.headers["content-type"]
        said(answer.status_code, told or "")

    def get(path, **given):
        said(f"> {path} {given or ''}")
        answer = client.get(f"/token/{path}", params=given)
        shown(answer)
        return answer

    def post(path, given):
        said(f"> {path} {str(given)[:60]}")
        shown(client.post(f"/token/{path}", content=given if isinstance(given, bytes) else json.dumps(given)))

    async def play():
        asked = player.Questions(player.words_of_models)
        get("state")
        post("answer", {"key": "0", "choices": [0]})
        post("quit", {})
        for number, turn in enumerate(questions(), 1):
            browser.begin(number, 5)
            question = asked.of(turn)
            waiting = asyncio.create_task(browser.ask(question))
            await asyncio.sleep(0)
            state = get("state", known="0").json()
            if number == 1:
                for _, value in sorted(get("state", known=state["key"]).headers.items()):
                    said(value)
                for key in (Tint(3, 2, 200).key, Tint(3, 2, 201).key):
                    get(f"pictures/{key}.png")
                key = {"key": state["key"]}
                for given in (
                    *([0], {}, {"key": 1, "choices": [0]}, {**key, "choices": 0}, {**key, "choices": [True]}),
                    *(
                        {**key, "choices": []},
                        {**key, "choices": [0, 1]},
                        {**key, "choices": [2]},
                        {**key, "choices": [-1]},
                    ),
                    *({**key, "choices": [0], "visible": value} for value in (-0.1, True, None, "1")),
                    *({"key": "9", "choices": [0]}, b'{"key": 1e999}'),
                    *(json.dumps({"key": "9", "choices": [0]}).encode().ljust(size) for size in (2000, 2001)),
                    *({"key": "9", "choices": [0], "ignored": value} for value in (0, -1, 2.5, "1")),
                ):
                    post("answer", given)
            if number == 5:
                post("quit", {})
                post("quit", {})
            else:
                post("answer", {"key": state["key"], "choices": [len(question.options) - 1], "visible": 1e9})
                post("answer", {"key": state["key"], "choices": [0]})
            try:
                said("chosen", await waiting)
            except player.QuitError:
                said("quit")
            get("state")
        assert not browser._changed.is_set(), "the next request waits"
        await browser.end()
        get("state")
        assert browser._told.is_set()

    asyncio.run(play())
    for name in ("", "play.js", "play-style.css", "licenses.txt", "none"):
        said(name, client.get(f"/token/{name}").status_code, client.get(f"/token/{name}").headers.get("content-type"))
    said(*page.FILES)
    said.check("page_for_people", "evals")
