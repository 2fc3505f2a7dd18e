"""``raycade kumo lab propose | write | check | revise | make`` with a scripted model."""

import asyncio
import contextlib
import io
import json
import multiprocessing
import os
import re
import signal
import time
from decimal import Decimal

import pytest
import yaml

from cluster.cli import main
from cluster.config.settings import load_settings
from cluster.storage.stored_run import Run
from cluster.suite_commands.kumo.stages import run_command
from envs.kumo import load_domain, write_book
from evals.suites.kumo.lab.pipeline.folder import Folder
from evals.suites.kumo.lab.pipeline.tables import joined, stage_table
from evals.types import PlayerError, Reply
from tests.scripted_writer import (
    Writer,
    as_reply,
    domain_body,
    game_of,
    games_of,
    play_with,
    proposal,
    sound,
    stage_of,
    title_of,
    true_table,
)

pytestmark = pytest.mark.slow

SMALL = [
    *("model=simulated", "decoding=free", "suite.proposals=4", "suite.per_reply=2"),
    *("suite.truths=12", "suite.actions=8", "suite.tasks_per_domain=2"),
]
RUNS = ("propose", "configure", "write", "check-1")


def perfect(folder):
    games = []

    def script(request):
        if stage_of(request) not in ("propose", "configure") and not games:
            games.extend(games_of(folder))
        return sound(request, games)

    return script


def run(name, folder, writer, *overrides):
    return run_command(name, folder, [*SMALL, *overrides], False, play=play_with(writer))


def rows_of(folder, stage):
    return Run(folder / "runs" / stage).episodes(None).to_pylist()


def turns_of(folder, stage):
    table = Run(folder / "runs" / stage).episodes(["episode_id", "turns"])
    return [turn for row in table.to_pylist() for turn in row["turns"]]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder that a perfect model has filled; do not change it."""
    folder = tmp_path_factory.mktemp("pipeline") / "made"
    writer = Writer(perfect(folder))
    assert run("make", folder, writer) == 0
    return folder, writer


def test_a_perfect_model_makes_domains_and_books_that_the_suite_plays(made):
    folder, writer = made
    assert [stage_of(request) for request in writer.asked].count("configure") == 4 and len(writer.asked) == 22
    domains = sorted((folder / "domains").glob("*.yaml"))
    assert len(domains) == 4 and all(load_domain(path).category for path in domains)
    assert len(list((folder / "books").glob("*.md"))) == 8
    listed = ",".join(map(str, domains))
    overrides = [
        "suite=kumo",
        f"suite.domains=[{listed}]",
        "suite.repeats=1",
        "suite.difficulties=[easy]",
        "model=oracle",
    ]
    assert len(load_settings([*overrides, "suite.tasks_per_domain=3"]).plan) == 12
    written = load_settings([*overrides, f"suite.tasks={folder / 'books.jsonl'}", "suite.book=written"])
    assert len(written.plan) == 8
    puzzle = next(written.suite.puzzles())
    assert puzzle.book("written") == (folder / f"books/{puzzle.domain.name}-easy-{puzzle.index}.md").read_text().strip()


def test_every_attempt_is_in_the_ledger(made):
    folder, writer = made
    turns = [turn for stage in RUNS for turn in turns_of(folder, stage)]
    assert len(turns) == len(writer.asked) and sum(turn["prompt_tokens"] for turn in turns) == 100 * len(turns)
    sent = {str(request.chat[0].parts[0]) for request in writer.asked}
    assert {turn["prompt"][0]["parts"][0]["text"] for turn in turns} == sent
    assert {turn["finish"] for turn in turns} == {"stop"}
    assert {turn["rule"] for turn in turns} == {"read", "accepted", "written", "table equal"}
    accepted = {row["kumo_pipeline.accepted_by"] for row in rows_of(folder, "check-1")}
    assert accepted == {"both"}


def test_a_finished_pipeline_asks_nothing_again_and_changes_nothing(made, capsys):
    folder, _ = made
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "runs" not in path.parts}
    again = Writer(lambda request: pytest.fail("asked again"))
    assert run("make", folder, again) == 0 and not again.asked
    assert before == {
        path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "runs" not in path.parts
    }
    assert "4 proposals, 4 domains, 8 books accepted" in capsys.readouterr().out


def test_what_it_costs_is_said_before_and_after(tmp_path, capsys):
    prices = [
        "model=openai",
        "model.engine.model=some",
        "model.engine.prompt_price=2",
        "model.engine.completion_price=10",
    ]
    assert run_command("make", tmp_path / "new", [*SMALL, *prices, "model.sampling.max_tokens=500"], True) == 0
    said = capsys.readouterr().out
    assert re.search(r"propose +2 +2 +24", said) and re.search(r"\nall ", said) and not (tmp_path / "new").exists()
    line = next(line.split() for line in said.splitlines() if line.startswith("configure"))
    items, calls, most, prompt, completion, longest, cost = (float(word.replace(",", "")) for word in line[1:])
    assert (items, calls, most, longest) == (4, 10, 48, 24_000)
    assert cost == pytest.approx((prompt * 2 + completion * 10) / 1e6, abs=0.006)
    folder = tmp_path / "made"
    assert run("propose", folder, Writer(perfect(folder))) == 0
    said = capsys.readouterr().out
    assert "Expected" in said and "What came of it" in said and "0.0020" in said


def test_a_stage_s_table_adds_up_what_its_ledger_holds(clumsy, tmp_path):
    table = stage_table("x", Run(clumsy[0] / "runs/configure").data.of("kumo_pipeline"))
    assert table.columns[:8] == ("stage", "planned", "accepted", "refused", "failed", "calls", "continued", "sent back")
    assert table.columns[8:] == ("prompt tokens", "completion tokens", "cost")
    assert table.rows == (("configure", 4, 2, 2, 0, 10, 2, 4, 700, 70, Decimal("0.0070")),)
    folder = tmp_path / "failing"
    good = perfect(folder)
    failing = Writer(lambda r: PlayerError("no") if "art and design" in str(r.chat[0].parts[0]) else good(r))
    assert run("propose", folder, failing) == 0
    failed = stage_table("x", Run(folder / "runs/propose").data.of("kumo_pipeline"))
    assert failed.rows == (("propose", 2, 1, 0, 1, 1, 0, 0, 100, 10, Decimal("0.0010")),)
    both = joined([table, failed])
    assert [row[0] for row in both.rows] == ["configure", "propose"] and both.columns == table.columns


def test_stages_one_by_one_do_what_all_do_at_once(made, tmp_path):
    folder = tmp_path / "steps"
    writer = Writer(perfect(folder))
    for name in ("propose", "write", "check", "revise"):
        assert run(name, folder, writer) == 0
    assert len(writer.asked) == len(made[1].asked)
    names = [
        path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file() and "runs" not in path.parts
    ]
    assert names and all((folder / name).read_bytes() == (made[0] / name).read_bytes() for name in names)


# --- a model that errs -----------------------------------------------------------------------------------------------


class Clumsy:
    """Truncates, errs, repeats itself and sends hostile text, in ways that the test counts."""

    def __init__(self, folder):
        self.folder, self.seen, self.games = folder, {}, []

    def __call__(self, request):
        stage = stage_of(request)
        if stage not in ("propose", "configure") and not self.games:
            self.games = games_of(self.folder)
        key = (stage, str(request.chat[0].parts[0]))
        self.seen[key] = number = self.seen.get(key, -1) + 1
        return getattr(self, stage)(request, number)

    def propose(self, request, number):
        """Four fields: a sound pair, one after a repair, near-duplicates, and never anything of use."""
        place = ["agriculture", "art and", "astronomy", "biology"]
        which = next(n for n, word in enumerate(place) if f'"{word}' in request.chat[0].parts[0])
        if which == 0:
            return as_reply([proposal("Cutters"), proposal("Brokens")])
        if which == 1:
            return ["I would love to!", as_reply([proposal("Hostiles"), proposal("Repeaters")])][number]
        if which == 2:
            return as_reply([proposal("Cutter"), proposal("Wine")])
        return "- !!python/object/apply:os.system ['touch HIT']"

    def configure(self, request, number):
        title = title_of(request)
        body = domain_body(title)
        text = as_reply(body, fence=False)
        if title == "Cutters":  # in three pieces
            third = len(text) // 3
            pieces = [text[:third], text[third : 2 * third], text[2 * third :]]
            return Reply(pieces[number], finish="stop" if number == 2 else "length")
        if title == "Brokens":  # mended by the first repair
            last = list(body["actions"])[-1]
            patch = {"actions": {last: body["actions"][last]}}
            wrong = {**body, "actions": {**body["actions"], last: {"definition": "Short.", "outcomes": {"a": []}}}}
            return as_reply([wrong, patch][number])
        if title == "Hostiles":
            return ["a: &a [1]\nb: [" + "*a," * 999 + "]", "x" * 2**20, "\x1b[2J: {truths: !!python/name:os.system x}"][
                number
            ]
        return "I cannot."  # Repeaters

    def write(self, request, number):
        domain, task = game_of(request, self.games)
        book = write_book(task, domain)
        if task.index == 0:
            return book
        state = next(s for a in task.actions for s in a.states if s.rules_out)
        return book.replace(state.rules_out[0], "Nobody at All")

    def revise(self, request, number):
        domain, task = game_of(request, self.games)
        assert "misspelled" in request.chat[0].parts[0]
        return write_book(task, domain) if domain.name == "cutters" else "# Nothing"

    def extract(self, request, number):
        return true_table(game_of(request, self.games)[1])

    def faults(self, request, number):
        return json.dumps([{"kind": "misspelled", "what": "a name\x1b[2J"}])


@pytest.fixture(scope="module")
def clumsy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pipeline") / "clumsy"
    said = io.StringIO()
    with contextlib.chdir(folder.parent), contextlib.redirect_stdout(said):
        writer = Writer(Clumsy(folder))
        assert run("make", folder, writer, "suite.proposals=8") == 0
    return folder, writer, said.getvalue()


def test_attempts_repairs_acceptances_and_refusals_of_a_clumsy_model_are_counted(clumsy):
    folder, writer, _ = clumsy
    counts = {}
    for stage in (*RUNS, "revise-1", "check-2"):
        rows, turns = rows_of(folder, stage), turns_of(folder, stage)
        repairs = sum(row["kumo_pipeline.repairs"] for row in rows)
        continued = sum(row["kumo_pipeline.continuations"] for row in rows)
        counts[stage] = (len(rows), sum(row["success"] for row in rows), len(turns), repairs, continued)
    assert counts == {
        "propose": (4, 3, 6, 2, 0),
        "configure": (4, 2, 10, 4, 2),
        "write": (4, 4, 4, 0, 0),
        "check-1": (4, 2, 6, 0, 0),
        "revise-1": (2, 2, 2, 0, 0),
        "check-2": (2, 1, 3, 0, 0),
    }
    assert len(writer.asked) == sum(turns for _, _, turns, _, _ in counts.values())
    assert [path.stem for path in sorted((folder / "domains").glob("*"))] == ["brokens", "cutters"]
    proposed = yaml.safe_load((folder / "proposals.yaml").read_text())
    assert [entry["title"] for entry in proposed] == ["Cutters", "Brokens", "Hostiles", "Repeaters"]
    assert {path.name for path in (folder / "books").glob("*")} == {
        *("brokens-easy-0.md", "cutters-easy-0.md", "cutters-easy-1.md"),
    }
    assert len((folder / "books.jsonl").read_text().splitlines()) == 3


def test_nothing_that_a_model_wrote_is_executed_or_leaves_the_folder(clumsy):
    folder, *_ = clumsy
    assert not list(folder.parent.rglob("HIT")) and {path.name for path in folder.parent.iterdir()} == {"clumsy"}
    assert {path.name for path in folder.iterdir()} == {"books", "books.jsonl", "domains", "proposals.yaml", "runs"}
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix in (".yaml", ".md", ".jsonl", ".csv"):
            assert "\x1b" not in path.read_text(), path


def test_the_reasons_of_refusals_are_printed_without_terminal_codes(clumsy):
    *_, said = clumsy
    assert "refused Cutter: a near-duplicate of 'cutters'" in said and "wines" in said
    assert "refused hostiles: " in said and "refused repeaters: " in said
    assert "2 with misspelled first among their faults" in said and "\x1b[2J" not in said


def test_the_verdict_on_each_attempt_is_kept(clumsy):
    folder, *_ = clumsy
    rules = [
        [t["rule"] for t in row["turns"]]
        for row in Run(folder / "runs/configure").episodes(["index", "turns"]).to_pylist()
    ]
    assert sorted(rules) == sorted(
        [
            ["cut off: continued", "cut off: continued", "accepted"],
            ["refused by the checks", "accepted"],
            ["unreadable", "too long", "unreadable"],
            ["unreadable", "repeats its last reply"],
        ]
    )
    refused = [row for row in rows_of(folder, "check-1") if not row["success"]]
    assert {row["kumo_pipeline.parser"] for row in refused} == {"unreadable"}
    assert {row["kumo_pipeline.model"] for row in refused} == {"equal"}, "the scripted reader knows the answer"
    assert all(any(each.startswith("misspelled") for each in row["kumo_pipeline.complaints"]) for row in refused)


def test_engine_failures_are_rows_that_a_later_run_may_retry(tmp_path, capsys):
    folder = tmp_path / "failing"
    good = perfect(folder)
    failing = Writer(lambda r: PlayerError("no") if "art and design" in str(r.chat[0].parts[0]) else good(r))
    assert run("propose", folder, failing) == 0
    assert [row["status"] for row in rows_of(folder, "propose")].count("failed") == 1
    assert len(yaml.safe_load((folder / "proposals.yaml").read_text())) == 2
    again = Writer(good)
    assert run("propose", folder, again, "retry_failed=true") == 0 and len(again.asked) == 1
    assert "left as it is" in capsys.readouterr().err, "the file of two proposals is the user's now"


def test_files_of_the_user_are_neither_overwritten_nor_believed(tmp_path, capsys):
    folder = tmp_path / "edited"
    writer = Writer(perfect(folder))
    assert run("propose", folder, writer) == 0
    path = folder / "proposals.yaml"
    kept = yaml.safe_load(path.read_text())[:1]
    path.write_text(yaml.safe_dump(kept))
    assert run("write", folder, writer) == 0 and len(list((folder / "domains").glob("*.yaml"))) == 1
    assert run("propose", folder, writer) == 0
    assert yaml.safe_load(path.read_text()) == kept and "left as it is" in capsys.readouterr().err
    path.write_text("- title: ../../evil\n")
    with pytest.raises(SystemExit) as end:
        main(["kumo", "write", str(folder), *SMALL])
    assert end.value.code == 2 and "proposals.yaml" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["nonsense"], "KEY=VALUE"),
        (["suite.proposals=0"], "suite.proposals"),
        (["suite.per_reply=50"], "suite.per_reply"),
        (["suite.domains=[medicla]"], "medical"),
        (["suite.existing=[nothing.yaml]"], "nothing.yaml"),
        (["suite=kumo"], "suite"),
        (["model=oracle"], "engine"),
    ],
)
def test_wrong_settings_are_named(words, named, tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        main(["kumo", "make", str(tmp_path / "new"), *words, "--estimate"])
    said = capsys.readouterr()
    assert end.value.code == 2 and named in said.err and not (tmp_path / "new").exists(), said.err


def test_books_can_be_written_for_domains_that_there_are(tmp_path):
    folder = tmp_path / "books"
    from envs.kumo import generate_tasks

    medical = load_domain("medical")
    games = [(medical, task) for task in generate_tasks(medical, count=2)]
    writer = Writer(lambda request: sound(request, games))
    assert run("make", folder, writer, "suite.domains=[medical]") == 0
    assert {stage_of(request) for request in writer.asked} == {"write", "extract"} and not (
        folder / "proposals.yaml"
    ).exists()
    assert sorted(path.name for path in (folder / "books").iterdir()) == ["medical-easy-0.md", "medical-easy-1.md"]


def test_existing_domains_of_the_user_are_not_repeated(made, tmp_path, capsys):
    other = tmp_path / "more"
    files = ",".join(str(path) for path in sorted((made[0] / "domains").glob("*.yaml"))[:2])
    writer = Writer(perfect(other))
    assert run("propose", other, writer, f"suite.existing=[{files}]") == 0
    assert (
        len(yaml.safe_load((other / "proposals.yaml").read_text())) == 2
        and "it has the same name" in capsys.readouterr().out
    )


def test_no_more_proposals_are_kept_than_were_asked_for(tmp_path):
    folder = tmp_path / "three"
    assert run("propose", folder, Writer(perfect(folder)), "suite.proposals=3") == 0
    assert len(rows_of(folder, "propose")) == 2 and len(yaml.safe_load((folder / "proposals.yaml").read_text())) == 3


def test_of_two_new_domains_with_the_same_contents_the_first_is_kept(tmp_path, capsys):
    folder = tmp_path / "twins"
    good = perfect(folder)
    same = as_reply(domain_body("Twins"))
    writer = Writer(lambda r: same if stage_of(r) == "configure" else good(r))
    assert (
        run("propose", folder, writer, "suite.proposals=2") == 0
        and run("write", folder, writer, "suite.proposals=2") == 0
    )
    assert [row["success"] for row in rows_of(folder, "configure")] == [True, True]
    (kept,) = (folder / "domains").glob("*.yaml")
    assert f"a near-duplicate of {kept.stem!r}: it shares 100% of the names of its truths" in " ".join(
        capsys.readouterr().out.split()
    )


# --- many calls, and a sudden end ------------------------------------------------------------------------------------


def test_a_thousand_calls_are_in_flight_but_no_more_than_the_engine_has_slots(tmp_path):
    for batch, count in ((16, 60), (1_000, 1_200)):
        writer = Writer(lambda request: "no")
        folder, many = tmp_path / f"batch-{batch}", [f"suite.proposals={2 * count}", "suite.repairs=0"]
        assert run_command("propose", folder, [*SMALL, *many], False, play=play_with(writer, batch)) == 0
        assert 0.9 * batch <= writer.most_inside <= 1.1 * batch + 1
        assert len(rows_of(folder, "propose")) == count


class Slow(Writer):
    """Takes its time, and logs what it has answered."""

    def __init__(self, script, log):
        super().__init__(script)
        self.log = log

    async def complete(self, request):
        await asyncio.sleep(0.03)
        reply = await super().complete(request)
        with self.log.open("a") as file:
            file.write(f"{request.id}\n")
        return reply


def test_after_a_kill_nothing_that_was_stored_is_asked_again(tmp_path):
    folder, log = tmp_path / "made", tmp_path / "log"
    log.touch()

    def start():
        """Make everything in a process of its own, two calls at a time."""
        process = multiprocessing.get_context("fork").Process(target=work)
        process.start()
        return process

    def work():
        writer = Slow(perfect(folder), log)
        os._exit(run_command("make", folder, [*SMALL, "suite.proposals=8"], False, play=play_with(writer, batch=2)))

    def stored():
        """Ids of requests whose episodes are in a ledger."""
        found = set()
        for stage in RUNS:
            if (folder / "runs" / stage / "plan.parquet").exists():
                for row in Run(folder / "runs" / stage).episodes(["episode_id", "turns"]).to_pylist():
                    found |= {f"{row['episode_id']}-{number}" for number in range(len(row["turns"]))}
        return found

    for stage in ("propose", "configure", "check-1"):
        process = start()
        while process.is_alive() and not list((folder / "runs" / stage / "episodes").glob("part*.parquet")):
            time.sleep(0.005)
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL, "it was killed in the middle"
        before, answered = stored(), len(log.read_text().split())
        assert 0 < len(before) < 4 + 8 + 16 + 16
    process = start()
    process.join()
    assert process.exitcode == 0
    late = log.read_text().split()[answered:]
    assert late and not before & set(late), "asked again although it was stored"
    assert len(stored()) == 4 + 8 + 16 + 16
    assert Folder(folder).holdings() == "8 proposals, 8 domains, 16 books accepted"
