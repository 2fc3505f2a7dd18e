"""Notes on episodes: what is written stays, whatever dies or is joined; only the viewer's own page writes."""

import asyncio
import errno
import fcntl
import json
import multiprocessing
import os

import httpx
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from cluster.storage.stored_run import Run
from evals.ledger.run_data import RunData
from evals.notes import FILE, Note, NoteError, NotesFile, new_note, notes_table, store
from evals.notes.exchange import notes_as_text, read_notes
from evals.notes.web import ViewerNotes
from evals.viewer.index import EpisodeIndex
from evals.viewer.server import Viewer, make_app
from tests.asgi import hang_up
from tests.viewer_runs import calm_rows, viewed, write_run

EPISODE = "0" * 32
ON_ONE_LINE = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=40)
NOTES = st.builds(
    Note,
    st.integers(0, 30).map("{:016x}".format),
    st.sampled_from(["a" * 32, EPISODE]),
    ON_ONE_LINE,
    st.text(st.characters(exclude_categories=("Cc", "Cs")) | st.sampled_from("\n\t'=,\""), max_size=60),
    ON_ONE_LINE,
    st.just("2026-01-31T12:00:00Z"),
)


def note(number=1, **given):
    fields = {"episode": EPISODE, "tag": "misread label", "text": "", "author": "ada", "time": "2026-01-31T12:00:00Z"}
    return Note(f"{number:016x}", **{**fields, **given})


def filled(folder, *notes):
    folder.mkdir(exist_ok=True)
    file = NotesFile(folder)
    file.add(notes)
    return file


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(NOTES, st.booleans()), max_size=8),
    st.lists(NOTES, max_size=4),
    st.sampled_from(["csv", "jsonl"]),
)
def test_files_joined_in_any_order_say_the_same_and_exports_are_read_as_they_were(tmp_path_factory, ours, theirs, form):
    folder = tmp_path_factory.mktemp("notes")
    one, other = filled(folder / "one"), filled(folder / "other", *theirs)
    for each, is_removed in ours:
        one.add([each])
        if is_removed and each.id in {there.id for there in one.read().notes}:
            one.remove(each.id, "bob")
    removed = one.read().removed
    left, right = filled(folder / "left"), filled(folder / "right")
    for source in (one, other, one):
        left.add_from(source)
    for source in (other, one):
        right.add_from(source)
    ids = {each.id for each in left.read().notes}
    assert ids == {each.id for each in right.read().notes}
    assert ids == ({each.id for each, _ in ours} | {each.id for each in theirs}) - removed
    exported = folder / f"notes.{form}"
    exported.write_text(notes_as_text(left.read().notes, exported), newline="")
    again = read_notes(exported, {EPISODE, "a" * 32}, "nobody")
    normal = [(each.id, each.tag, each.text.replace("\r", "\n")) for each in left.read().notes]
    assert [(each.id, each.tag, each.text) for each in again] == normal
    assert left.add(again) == 0


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_notes_are_exported_and_read_again_as_they_were(tmp_path, form):
    notes = [
        note(1, tag="=1+1", text="a,\n\"b\"\t'c'", author="-ada"),
        note(2, tag="'=x", text="", author="@bob", time="2026-02-03T04:05:06Z"),
        note(3, tag="", text="'plain", episode="a" * 32),
    ]
    path = tmp_path / f"notes.{form}"
    path.write_text(notes_as_text(notes, path), newline="")
    assert read_notes(path, {EPISODE, "a" * 32}, "nobody") == notes
    first = path.read_text().splitlines()[0]
    assert (
        first == "id,episode,tag,text,author,time" if form == "csv" else first.startswith('{"id": "0000000000000001"')
    )
    if form == "csv":
        assert all(told in path.read_text() for told in (",'=1+1,", ",''=x,", ",'-ada,", ",'@bob,", ",'plain,"))


def test_a_file_gets_what_another_says_and_a_removed_note_does_not_come_back(tmp_path):
    ours, theirs = filled(tmp_path / "ours", note(1), note(2)), filled(tmp_path / "theirs", note(2), note(3), note(4))
    theirs.remove(note(2).id, "bob")
    theirs.remove(note(4).id, "bob")
    assert ours.add_from(theirs) == 1 and ours.add_from(theirs) == 0
    assert [each.id for each in ours.read().notes] == [note(1).id, note(3).id]
    assert ours.read().removed == {note(2).id, note(4).id}
    assert ours.add([note(2), note(4), note(5), note(5)]) == 1, (
        "what was removed does not come back, and one counts once"
    )
    assert ours.read().by_episode() == {EPISODE: [note(1), note(3), note(5)]}
    with pytest.raises(NoteError, match="no note"):
        ours.remove(note(2).id, "ada")
    assert '"author": "bob"' in theirs.path.read_text()


def test_of_two_notes_with_one_id_the_first_counts(tmp_path):
    file = filled(tmp_path / "run", note(text="first"))
    other = filled(tmp_path / "other", note(text="second"))
    file.path.write_bytes(file.path.read_bytes() + other.path.read_bytes())
    assert [each.text for each in file.read().notes] == ["first"]


def test_a_death_in_the_middle_of_a_line_costs_that_line_only(tmp_path):
    file = filled(tmp_path, note(1), note(2))
    whole = file.path.read_bytes()
    for size in range(len(whole) + 1):
        file.path.write_bytes(whole[:size])
        before = {each.id for each in file.read().notes}
        assert len(before) == whole[:size].count(b"}"), "each whole line counts, also without its line end"
        file.add([note(9)])
        assert {each.id for each in file.read().notes} == before | {note(9).id}
        assert len(file.read().damage) == (1 if size and whole[size - 1 : size] not in (b"\n", b"}") else 0)


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    file = filled(tmp_path, note(1))
    before = file.path.read_bytes()
    write, calls = os.write, []

    def some(handle, content):
        calls.append(1)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return write(handle, bytes(content[:5]))

    monkeypatch.setattr("evals.notes.store.os.write", some)
    with pytest.raises(NoteError, match="No space left"):
        file.add([note(2)])
    assert file.path.read_bytes() == before


def _add_many(folder, first):
    whole_write = os.write
    os.write = lambda file, content: whole_write(file, bytes(content[:100]))  # as a full pipe or a signal would
    for number in range(first, first + 20):
        NotesFile(folder).add([note(number, text="x" * 500)])


def test_processes_that_write_at_once_lose_nothing(tmp_path):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_add_many, args=(tmp_path, first)) for first in (0, 100, 200)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    found = NotesFile(tmp_path).read()
    assert (len(found.notes), found.damage) == (60, ())


def test_a_note_in_a_snapshot_by_hard_links_is_in_the_snapshot_alone(tmp_path):
    original, snapshot = tmp_path / "run", tmp_path / "snapshot"
    filled(original, note(1))
    snapshot.mkdir()
    (snapshot / FILE).hardlink_to(original / FILE)
    NotesFile(snapshot).add([note(2)])
    NotesFile(original).add([note(3)])
    texts = [[each.id for each in NotesFile(folder).read().notes] for folder in (original, snapshot)]
    assert texts == [[note(1).id, note(3).id], [note(1).id, note(2).id]]


def test_a_lock_that_is_never_released_ends_with_its_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "LOCK_SECONDS", 0.05)
    file = filled(tmp_path, note(1))
    with file.path.open() as held:
        fcntl.flock(held, fcntl.LOCK_SH)  # which who may only read the file can take, too
        with pytest.raises(NoteError, match=r"notes.jsonl: another process holds its lock"):
            file.add([note(2)])
    assert file.add([note(3)]) == 1
    assert [each.id for each in file.read().notes] == [note(1).id, note(3).id]


def test_without_locks_notes_are_written_all_the_same(tmp_path, monkeypatch):
    def refuse(file, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert filled(tmp_path, note(1)).read().notes == (note(1),)


WRONG = [
    ("tag", "a\nb"),
    ("tag", "x" * 61),
    ("text", "\x1b[31m"),
    ("text", "x" * 4001),
    ("author", ""),
    ("time", "now"),
]


@pytest.mark.parametrize(("field", "value"), [*WRONG, ("episode", "../x"), ("tag", "\ud800"), ("tag", "")])
def test_what_is_no_note_is_refused_and_as_a_line_it_is_damage(tmp_path, field, value):
    with pytest.raises(NoteError, match=field):
        note(**{field: value})
    lines = ["[1]", "{}", '{"removed": 5}', "{", "\x00", '{"id": {"id": {"id": {}}}}', "[" * 40_000]
    (tmp_path / FILE).write_text("\n".join(lines))
    assert len(NotesFile(tmp_path).read().damage) == len(lines)


def test_an_import_names_the_line_that_is_wrong_and_needs_little(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(f"tag,episode\nguess,{EPISODE}\n")
    (one,), (again,) = (read_notes(path, {EPISODE}, "ada") for _ in range(2))
    assert (one.tag, one.author, one.id) == ("guess", "ada", again.id)
    other_episode, no_words = f"guess,{EPISODE}\nguess,abc\n", f",{EPISODE}\n"
    for content, why in ((other_episode, "line 3: the run has no episode 'abc'"), (no_words, "line 2: tag, text")):
        path.write_text(f"tag,episode\n{content}")
        with pytest.raises(NoteError, match=why):
            read_notes(path, {EPISODE}, "ada")
    path.write_text('tag,"episode')
    with pytest.raises(NoteError, match="line 1: unexpected end of data"):
        read_notes(path, {EPISODE}, "ada")
    with pytest.raises(NoteError, match=r"\.csv or \.jsonl"):
        read_notes(tmp_path / "notes.txt", {EPISODE}, "ada")


def test_an_import_finds_an_episode_by_the_beginning_of_its_id(tmp_path):
    episodes = {"ab12" + "0" * 28, "ab13" + "0" * 28, "ab1"}
    path = tmp_path / "notes.csv"
    path.write_text("episode,tag\nab12,wrong\nab1,right\n")
    assert [note.episode for note in read_notes(path, episodes, "ada")] == ["ab12" + "0" * 28, "ab1"]
    for start, why in (
        ("ab", "several episodes of the run begin with 'ab': ab1, ab12"),
        ("ac", "no episode 'ac'"),
        ("", "is the id"),
    ):
        path.write_text(f"episode,tag\n{start},wrong\n")
        with pytest.raises(NoteError, match=f"line 2: .*{why}"):
            read_notes(path, episodes, "ada")


def test_an_imported_note_without_an_id_is_known_again_by_all_that_it_says(tmp_path):
    said = {"id": "", "episode": "ep-1", "tag": "guess", "text": "so", "author": "eve", "time": "2031-02-03T04:05:06Z"}
    changes = {"episode": "ep-2", "tag": "", "text": "x", "author": "bob", "time": "2031-02-03T04:05:07Z"}
    rows = [said, *({**said, name: value} for name, value in changes.items()), said, {**said, "id": "0" * 16}]
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    first, *others, again, own = read_notes(path, {"ep-1", "ep-2"}, "ada")
    assert first.to_json() == {**said, "id": first.id} and again == first and own.id == "0" * 16
    assert len({first.id, *(each.id for each in others)}) == len(rows) - 2


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "calm", *calm_rows())


def test_tags_are_counted_by_how_the_games_ended(run):
    data = Run(run).data
    rows = data.episodes(("episode_id", "player", "suite", "status", "success")).to_pylist()
    random = [each for each in rows if each["player"] == "random" and each["suite"] == "kumo"]
    lost, won = ([each for each in random if bool(each["success"]) is wanted] for wanted in (False, True))
    assert notes_table(data, ()) is None
    notes = [note(number, episode=each["episode_id"]) for number, each in enumerate([*lost[:2], lost[0], *won])]
    table = notes_table(data, [*notes, note(99, episode=lost[0]["episode_id"], tag="", text="why?")])
    ended = (f"{len(won)} of {len(won)}" if won else "0", "0")
    assert table.rows == (
        ("random", "kumo", "misread label", f"2 of {len(lost)}", *ended),
        ("random", "kumo", "(no tag)", f"1 of {len(lost)}", f"0 of {len(won)}" if won else "0", "0"),
    )


def test_tags_stand_by_player_and_suite_and_those_of_most_lost_games_first():
    rows = [
        *(("e1", "m", "s", "done", False), ("e2", "m", "s", "done", False), ("e3", "m", "s", "done", True)),
        *(("e4", "m", "s", "failed", None), ("e5", "m", "t", "done", None), ("e6", "o", "s", "done", True)),
        ("e7", "o", "s", "failed", None),
    ]
    names = ("episode_id", "player", "suite", "status", "success")
    ledger = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
    data = RunData.of_tables(pa.table({"player": ["o", "m", "m"], "suite": ["s", "t", "s"]}), ledger)
    given = {"e1": "bc", "e2": "cc", "e3": "ab", "e4": "a", "e5": "a", "e6": "z", "e7": "z", "elsewhere": "q"}
    notes = [note(number, episode=name, tag=tag) for number, (name, tags) in enumerate(given.items()) for tag in tags]
    assert notes_table(data, notes).rows == (
        ("o", "s", "z", "0", "1 of 1", "1 of 1"),
        ("m", "t", "a", "1 of 1", "0", "0"),
        ("m", "s", "c", "2 of 2", "0 of 1", "0 of 1"),
        ("m", "s", "b", "1 of 2", "1 of 1", "0 of 1"),
        ("m", "s", "a", "0 of 2", "1 of 1", "1 of 1"),
    )


class Page:
    """The viewer's page, with its token."""

    def __init__(self, run, refusal=""):
        index = EpisodeIndex([viewed(run)])
        self.notes = ViewerNotes(index, "ada", refusal)
        self.viewer = Viewer(index, also=self.notes.refresh)
        self.viewer.refresh()
        app = make_app(self.viewer, "secret", more=self.notes.routes())
        self.client = TestClient(app, base_url="http://localhost", cookies={"raycade": "secret"})
        self.rows = self.get("episodes")["rows"]
        self.at = f"calm/{self.rows[0]['episode_id']}"

    def get(self, path, **given):
        return self.client.get(f"/api/{path}", params=given).json()

    def post(self, headers=None, **given):
        return self.client.post(
            "/api/notes", json={"at": self.at, **given}, headers=headers or {"origin": "http://localhost"}
        )


def test_the_page_adds_filters_and_removes(run):
    page = Page(run)
    assert "tag" not in page.get("values") and "tags" not in page.rows[0]
    answer = page.post(tag=" guess ", text="<b>", author="").json()
    (written,) = answer["notes"]
    assert (written["tag"], written["text"], written["author"], answer["tags"]) == ("guess", "<b>", "ada", ["guess"])
    assert page.get("values")["tag"] == {"guess": 1}
    (found,) = page.get("episodes", tag="guess")["rows"]
    assert f"calm/{found['episode_id']}" == page.at and found["tags"] == ["guess"]
    assert sum(cell["played"] for cell in page.get("cells", tag="guess")) == 1
    assert page.get("episodes", tag="other")["rows"] == []
    assert page.get("notes", at=page.at) == answer
    NotesFile(run).add([note(5, episode=page.rows[1]["episode_id"], tag="other")])  # by somebody else
    page.viewer.refresh()
    assert page.get("episodes", tag="other")["total"] == 1
    assert page.post(remove=written["id"]).json()["notes"] == []
    assert page.get("values")["tag"] == {"other": 1}
    assert page.post(remove=written["id"]).status_code == 400


def test_nobody_else_writes(run):
    page = Page(run)
    for headers in (
        {"origin": "http://evil.com"},
        {"origin": "null"},
        {"x": "y"},
        {"origin": "http://localhost.evil.com"},
    ):
        assert page.post(headers, tag="x").status_code == 403, headers
    assert page.post({"origin": "http://evil.com", "host": "evil.com"}, tag="x").status_code == 400
    for wrong in ({"tag": 5}, {"tag": ""}, {"more": "x"}, {"tag": "x", "at": "calm/nothing"}, {"text": "x" * 70_000}):
        assert page.post(**wrong).status_code in (400, 404, 413), wrong
    page.client.cookies.clear()
    assert page.post(tag="x").status_code == 403
    refused = Page(run, "not here")
    assert refused.post(tag="x").json() == {"error": "not here"}
    assert refused.get("notes", at=refused.at)["refusal"] == "not here"
    assert not (run / FILE).exists()


async def test_other_pages_are_answered_while_a_note_waits_for_a_lock(run):
    page = Page(run)
    transport = httpx.ASGITransport(page.client.app)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", cookies={"raycade": "secret"}
    ) as client:
        with (run / FILE).open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            sent = client.post("/api/notes", json={"at": page.at, "tag": "x"}, headers={"origin": "http://localhost"})
            post = asyncio.create_task(sent)
            for _ in range(3):
                assert (await client.get("/api/values")).status_code == 200
            assert not post.done()
        assert (await post).json()["notes"][0]["tag"] == "x"


async def test_a_browser_that_hangs_up_within_a_note_writes_nothing(run):
    page = Page(run)
    named = [(b"origin", b"http://localhost"), (b"cookie", b"raycade=secret")]
    await hang_up(page.client.app, "/api/notes", "localhost", named)
    assert not (run / FILE).exists()


def test_what_cannot_be_read_is_said_beside_what_can(run):
    (run / FILE).write_text("nonsense\n")
    NotesFile(run).add([new_note(calm_rows()[0][0].id, "guess", "", "ada")])
    page = Page(run)
    assert page.get("values")["tag"] == {"guess": 1}
    (damage,) = page.get("state")["runs"][0]["damage"]
    assert "line 1" in damage
