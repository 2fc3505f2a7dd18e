"""What the pipeline makes of a model's text: data within bounds, repairs, refusals, and books that are read back."""

import asyncio
import dataclasses
import functools
import itertools
import json
import os
import random
import re
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pyarrow as pa
import pytest
import yaml

from envs.kumo import GenerationError, available_domains, generate_tasks, load_domain, write_book
from envs.kumo.likeness import Profile, shipped_profiles
from envs.kumo.properties import range_of
from envs.kumo.structure import Measured
from envs.kumo.vocabulary import draw_names
from evals.conversation import Conversation, PlayedTurn, Record
from evals.ledger.records import plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.suite import ledger_columns, plan_for, play_episode
from evals.suites.kumo.lab.pipeline import book_prompts, dialogue, model_text, prompts, tables
from evals.suites.kumo.lab.pipeline import configure as configuring
from evals.suites.kumo.lab.pipeline import folder as folders
from evals.suites.kumo.lab.pipeline import proposals as proposing
from evals.suites.kumo.lab.pipeline import suite as stage_suite
from evals.suites.kumo.lab.pipeline.books import Draft, check_book, revise_book
from evals.suites.kumo.lab.pipeline.books import write_book as write_by_model
from evals.suites.kumo.lab.pipeline.configure import configure, patched, problems, read_body
from evals.suites.kumo.lab.pipeline.dialogue import CONTINUATIONS, Tally, ask_whole, loops
from evals.suites.kumo.lab.pipeline.folder import Folder, StageRun, proposals_text
from evals.suites.kumo.lab.pipeline.items import most_calls
from evals.suites.kumo.lab.pipeline.model_text import NotDataError, brief, read_data
from evals.suites.kumo.lab.pipeline.proposals import Proposal, choose, propose, read_proposals
from evals.suites.kumo.lab.pipeline.reading import LONGEST_BOOK, ReadBack, compare, decide, lint_book, parse, table_from
from evals.suites.kumo.lab.pipeline.saving import Saved, save_accepted
from evals.suites.kumo.lab.pipeline.suite import KumoPipeline
from evals.tables import WRITERS
from evals.types import Episode, Outcome, PlayerError, Reply, Turn, message
from tests.golden import check_golden, digest
from tests.scripted_writer import as_reply, domain_body, game_of, proposal, stage_of, title_of, true_table
from tests.viewer_runs import write_run

EPISODE = Episode("kumo_pipeline", "x", "new", "propose", 0, 0, 1, "f", 9)
CHAT = (message("user", "Write."),)


class Player:
    """Says one thing after the other, the last one for ever; texts or replies."""

    def __init__(self, *said):
        self.said, self.asked = list(said), []

    async def reply(self, turn):
        self.asked.append(turn)
        said = self.said.pop(0) if len(self.said) > 1 else self.said[0]
        return said if isinstance(said, Reply) else Reply(said)


def talk(player, ask):
    """What a stage makes of a player: its result, and the conversation."""
    conversation = Conversation(EPISODE, player)
    return asyncio.run(ask(conversation)), conversation


def cut(text):
    return Reply(text, finish="length")


def rules(conversation):
    return [played.rule for played in conversation.turns.values()]


@pytest.mark.parametrize("count", [0, 1, 20, 21, 22, 40])
def test_every_complaint_is_listed_or_counted(count):
    lines = prompts.listed([f"fault {number}" for number in range(count)]).splitlines()
    assert lines[:20] == [f"- fault {number}" for number in range(min(count, 20))]
    assert lines[20:] == [f"- and {count - 20} more of the same kinds"] * (count > 20)


# --- hostile data ----------------------------------------------------------------------------------------------------

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}, *{chr(97 + n)}, *{chr(97 + n)}]\n"
    for n in range(20)
)
HOSTILE = {
    "a bomb of aliases": BOMB,
    "a Python tag": "- !!python/object/apply:os.system ['touch HIT']",
    "a Python tag in JSON's clothes": '{"a": !!python/object/new:os.system ["touch HIT"]}',
    "any tag": "a: !custom b",
    "a tag of YAML's own": "a: !!set {b}",
    "an anchor": "a: &x b",
    "deep brackets": "[" * 5_000 + "]" * 5_000,
    "deep JSON": '{"a":' * 50 + "1" + "}" * 50,
    "deep mappings": "".join(" " * n + f"k{n}:\n" for n in range(60)),
    "a megabyte": "a: " + "x" * 2**20,
    "very many values": "[" + "1," * 40_000 + "1]",
    "a repeated key": "a: 1\na: 2",
    "a repeated key in JSON": '{"a": 1, "a": 2}',
    "a huge number": "a: " + "9" * 200_000,
    "no YAML": "a: b: c: [",
    "nothing": "   \n",
    "a control character": "a: \x1b[2J",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_refused_soon_and_nothing_is_executed(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "system", lambda *_: pytest.fail("executed"))
    start = time.process_time()
    with pytest.raises(NotDataError) as refusal:
        read_data(text)
    assert time.process_time() - start < 20 and len(str(refusal.value)) < 400
    assert "\x1b" not in str(refusal.value) and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text",
    [
        "a: [1, 2]",
        '{"a": [1, 2]}',
        "Sure!\n```yaml\na: [1, 2]\n```\nDone.",
        "```\na: [1, 2]",
        "```json\n{}\n```\n\n```yaml\na: [1,\n    2]\n```",
        "{a: [1, 2]}",
    ],
)
def test_data_are_read_as_yaml_or_json_with_or_without_a_fence(text):
    assert read_data(text) == {"a": [1, 2]}


# --- truncation and repetition ---------------------------------------------------------------------------------------


def whole_of(*said, schema=""):
    tally, player = Tally(), Player(*said)
    (whole, turns), conversation = talk(player, lambda c: ask_whole(c, CHAT, tally, schema))
    assert turns == list(conversation.turns.values())
    return whole, tally.continuations, player


def test_a_truncated_reply_is_continued_three_times_at_most():
    whole, continued, player = whole_of(cut("one "), cut("two "), "three")
    assert (whole.text, whole.problem, continued) == ("one two three", "", 2)
    assert [each.role for each in player.asked[-1].chat] == ["user", "assistant", "user", "assistant", "user"]
    assert player.asked[-1].chat[-1].parts == (prompts.CONTINUE,)
    constrained = whole_of(cut("[1,"), " 2]", schema="{}")[2]
    assert [turn.schema for turn in constrained.asked] == ["{}", ""], (
        "a continuation begins in the middle of the schema"
    )
    whole, continued, player = whole_of(*(cut(f"part {n} ") for n in range(9)))
    assert (whole.problem, continued, len(player.asked)) == ("cut off", CONTINUATIONS, CONTINUATIONS + 1)


def test_what_is_no_use_is_not_continued():
    assert whole_of(cut(""))[:2] == whole_of(cut(""), "x")[:2]
    assert whole_of(cut(""))[0].problem == "cut off" and len(whole_of(cut(""))[2].asked) == 1
    looping = whole_of(cut("Gout is a disease. " * 100))
    assert looping[0].problem == "loops" and looping[1] == 0
    long = "".join(f"{number} " for number in range(30_000))
    assert whole_of(cut(long), cut(long + "a"), "b")[0].problem == "too long", "all parts together"
    assert whole_of("")[0].problem == "empty" and whole_of("x" * 400_000)[0].problem == "too long"
    assert whole_of(Reply("no", finish="refusal"))[0].problem == "refused"
    assert not loops("".join(f"- {n % 40}: [Otter, Heron, Mallard, Fox]\n" for n in range(90))), "lists may repeat"
    assert not loops("a long text that does not repeat itself " + " ".join(map(str, range(200))))


# --- proposals -------------------------------------------------------------------------------------------------------


REQUEST = prompts.propose("biology", 2, ["Medical", "Trees"])


def proposed(*said, count=2, repairs=2):
    return talk(Player(*said), lambda c: propose(c, 0, count, REQUEST, repairs))


def test_proposals_are_read_and_the_prompt_names_what_exists():
    (outcome, tally), conversation = proposed(as_reply([proposal("Lanterns"), proposal("Kites"), proposal("Bells")]))
    assert outcome.success and tally == Tally() and rules(conversation) == ["read"]
    found = json.loads(outcome.extra["result"])
    assert [each["name"] for each in found] == ["lanterns", "kites"], "no more than were asked for"
    assert "Medical; Trees" in conversation.turns[0].turn.chat[0].parts[0]
    assert Proposal.read(found[0], found[0]["category"]).title == "Lanterns"


def test_likeness_to_a_proposal_that_was_refused_refuses_none():
    def proposed_domain(name, truths, actions):
        call = {"singular": "x", "plural": "xs"}
        return Proposal(name, name, "goal", "c", call, call, truths, actions)

    trees = Profile.of("trees", "Trees", ["oak", "elm", "ash", "yew"], ["leaf one", "leaf two", "leaf three"])
    looks = ("bark look", "seed look", "root look")
    woods = proposed_domain("woods", ("oak", "elm", "ash", "pine"), looks)
    timber = proposed_domain("timber", ("walnut", "cherry", "maple", "teak"), looks)
    assert [(each.name, bool(reason)) for each, reason in choose([woods, timber], [trees])] == [
        ("woods", True),
        ("timber", False),
    ]
    assert [bool(reason) for _, reason in choose([timber, woods, timber], [])] == [False, True, True]


@pytest.mark.slow
def test_other_domains_pass_and_of_two_new_ones_the_first_is_kept():
    fresh = [Proposal.read(proposal(title), "biology") for title in ("Kites", "Bells", "Kite", "Lock Picks")]
    judged = choose(fresh, shipped_profiles())
    assert [bool(reason) for _, reason in judged] == [False, False, True, False] and "kites" in judged[2][1]


# --- seed configuration ----------------------------------------------------------------------------------------------

KITES = Proposal.read(proposal("Kites"), "biology")
BODY = domain_body("Kites")


def configured(*said, repairs=2, truths=12, actions=8):
    player = Player(*said)
    (outcome, tally), conversation = talk(player, lambda c: configure(c, KITES, truths, actions, repairs))
    return outcome, tally, conversation


def test_a_sound_domain_is_accepted_as_yaml_that_loads(tmp_path):
    outcome, tally, conversation = configured(as_reply(BODY))
    assert outcome.success and tally == Tally() and rules(conversation) == ["accepted"]
    path = tmp_path / "kites.yaml"
    path.write_text(outcome.extra["result"])
    domain = load_domain(path)
    assert domain.category == "biology" and len(domain.truths) == 12 and len(domain.actions) == 8
    assert domain.truth.plural == "members" and generate_tasks(domain, count=3)


def test_a_domain_in_four_pieces_is_put_together():
    text = as_reply(BODY)
    places = [0, len(text) // 4, len(text) // 2, 3 * len(text) // 4, len(text)]
    pieces = [text[start:end] for start, end in itertools.pairwise(places)]
    outcome, tally, conversation = configured(*map(cut, pieces[:3]), pieces[3])
    assert outcome.success and tally.continuations == 3 and rules(conversation)[-1] == "accepted"
    assert rules(conversation)[0] == "cut off: continued"


def test_a_repair_quotes_what_is_wrong_and_may_be_a_patch():
    first, last = next(iter(BODY["truths"])), list(BODY["actions"])[-1]
    broken = json.loads(json.dumps(BODY))
    broken["actions"][last]["outcomes"]["5 to 7"] = []
    broken["truths"][first] = "Too short."
    broken["actions"]["Stray"] = {"definition": "x", "outcomes": {}}
    patch = {"truths": {first: BODY["truths"][first]}, "actions": {last: BODY["actions"][last], "Stray": None}}
    outcome, tally, conversation = configured(as_reply(broken), as_reply(patch))
    assert outcome.success and tally.repairs == 1 and rules(conversation) == ["refused by the checks", "accepted"]
    complaint = conversation.turns[1].turn.chat[-1].parts[0]
    assert repr(last) in complaint and repr(first) in complaint and "Stray" in complaint
    assert "Stray" not in outcome.extra["result"]


def _touching_and_twins(body):
    """As models write: each range begins where the one before ends, and two truths have the same rules."""
    one, two, *_ = body["truths"]
    for action in body["actions"].values():
        ends = [range_of(outcome) for outcome in action["outcomes"]]
        if None not in ends:
            lows = [0, *(high for _, high in ends)]
            texts = [f"{low:g} to {high:g}" for low, (_, high) in zip(lows, ends, strict=False)]
            action["outcomes"] = dict(zip(texts, action["outcomes"].values(), strict=True))
        for gone in action["outcomes"].values():
            gone[:] = [name for name in gone if name != two] + [two] * (one in gone)


def mutated(change):
    body = json.loads(json.dumps(BODY))
    change(body)
    return body


def _each(body, gone_of):
    names = list(body["truths"])
    for number, action in enumerate(body["actions"].values()):
        for place, outcome in enumerate(action["outcomes"]):
            action["outcomes"][outcome] = gone_of(names, number, place)


def _no_numbers(body):
    for name in list(body["actions"])[::3]:
        del body["actions"][name]


def _too_many(body):
    _each(body, lambda names, test, place: [n for n in names if random.Random(f"{n}{test}").randrange(3) != place])


def _more_truths(*names):
    return lambda body: body["truths"].update(dict.fromkeys(names, "A thing of a certain kind here."))


FAULTY = {
    "nothing": lambda b: None,
    "too few truths": lambda b: b["truths"].popitem(),
    "too few tests": lambda b: (b["actions"].popitem(), b["actions"].popitem()),
    "no numbers": _no_numbers,
    "hidden characters": _more_truths("Zero\u200b", "Esc\x1b[2J"),
    "a very long name": _more_truths("x" * 81, "y" * 80),
    "very many truths": lambda b: b["truths"].update({f"T{n}": "x" for n in range(300)}),
    "very many tests": lambda b: b["actions"].update({f"T{n}": "x" for n in range(120)}),
    "very many outcomes": lambda b: b["actions"][next(iter(b["actions"]))]["outcomes"].update(
        {f"o{n}": [] for n in range(20)}
    ),
    "a long outcome": lambda b: b["actions"][next(iter(b["actions"]))]["outcomes"].update({"o" * 81: []}),
    "markup in a name": _more_truths("<script>"),
    "a list of a list": lambda b: b["actions"][next(iter(b["actions"]))]["outcomes"].update(
        {"0 to 4": [["Kites Aax"]]}
    ),
    "tests that are a list": lambda b: b.update(actions=["x"]),
    "no truths": lambda b: b.pop("truths"),
    "too many rule-outs": _too_many,
}

WRONG_PROPOSALS = [
    *(proposal("Kites", title=title) for title in (7, ["x" * 60], "x" * 61, "!!!", "<b>Kites", "北京 42", "")),
    *(proposal("Kites", goal=goal) for goal in ("", " ", "Find\x1b]0;hit\x07 it.", "Find it.\u202e", "x" * 401, None)),
    *(proposal("Kites", truth=noun) for noun in ("kite", {"singular": "kite"}, {"singular": "x" * 41, "plural": "x"})),
    *(proposal("Kites", truths=truths) for truths in ([], [["x"]], "kite", ["x" * 81])),
    proposal("Kites", actions=[7]),
    "text",
    {key: value for key, value in proposal("Kites").items() if key != "goal"},
]
RIGHT_PROPOSALS = [
    *(
        proposal("Kites", title=t)
        for t in ("../../etc/passwd", "-rf .", "Café & Bar", "3D  Printers", "a" * 60, "CON", f"{'a' * 39} b")
    ),
    proposal("Kites", goal="x" * 400, extra=1, truths=[*("abcdefghijklmnop"), "a"], actions=["b", "b"]),
]
REPLIES = [
    *(as_reply(data) for data in ([], {"title": "X"}, {"entries": [proposal("Bells")]}, {"a": [], "b": []}, "text")),
    *("", "x" * 300_001, "{a: *b}"),
]


def told(ask, *said):
    """What a stage makes of a player that says these one after the other."""
    player = Player(*said)
    (outcome, tally), conversation = talk(player, ask)
    for number, played in conversation.turns.items():
        chat = played.turn.chat
        schema = played.turn.schema and f" schema {digest(played.turn.schema)}"
        yield f"  {number}: {played.rule} | {brief(str(played.action), 80)} | {[said.role for said in chat]}{schema}"
        if len(chat) > 1:
            [shown] = chat[-2].parts
            yield f"      shown: {brief(shown, 60)} {len(shown)} {digest(shown)}"
            yield from (f"      {brief(line, 200)}" for line in chat[-1].parts[0].splitlines())
    extra = {name: brief(str(value), 90) for name, value in outcome.extra.items() if name != "complaints"}
    yield f"  {outcome.success} {outcome.steps} {tally.continuations} {tally.repairs} {extra}"
    yield from (f"    {each}" for each in outcome.extra["complaints"])


def test_what_is_proposed_and_configured_is_judged_as_on_record():
    parts = ["# Proposals"]
    found, complaints = read_proposals(as_reply([*WRONG_PROPOSALS, *RIGHT_PROPOSALS]), "biology")
    parts += [*complaints, *(brief(repr(each), 1_000) for each in found)]
    parts += [f"{brief(text, 40)!r}: {read_proposals(text, 'x')}" for text in REPLIES]
    useless = ("I would rather talk.", as_reply([{"title": "X"}]), as_reply([proposal("Kites"), 7, proposal("Bells")]))
    silent = [f"no {number}" for number in range(30)]
    twice, endless, refused = ["no"], [cut(f"part {n} ") for n in range(9)], [Reply("x", finish="refusal"), "no"]
    for said in (useless, silent, twice, endless, refused, [cut("")], [""], [cut("Gout is a disease. " * 100)]):
        parts += ["", "# Asked for two proposals", *told(lambda c: propose(c, 3, 2, REQUEST, 2), *said)]
    for name, change in FAULTY.items():
        parts += ["", f"# Faulty: {name}", *problems(KITES, mutated(change), 12, 8)]
    small = {**BODY, "truths": dict(list(BODY["truths"].items())[:3])}
    first, last = next(iter(BODY["truths"])), list(BODY["actions"])[-1]
    broken = mutated(
        lambda b: (b["truths"].update({first: "Too short."}), b["actions"].update(Stray={"definition": "x"}))
    )
    patch = {"truths": {first: BODY["truths"][first]}, "actions": {last: BODY["actions"][last], "Stray": None}}
    for said in (
        [as_reply(broken), as_reply(patch)],
        [as_reply({**small, "notes": [f"n{n}"]}) for n in range(9)],
        ["just: text", "&a *b", as_reply(BODY)],
        [as_reply(mutated(_touching_and_twins))],
        [as_reply(mutated(FAULTY["very many outcomes"])), as_reply(BODY)],
        [cut(as_reply(BODY)[:100]), as_reply(BODY)[80:]],
    ):
        parts += ["", "# Asked for a domain", *told(lambda c: configure(c, KITES, 12, 8, 2), *said)]
    check_golden("kumo_pipeline", "\n".join(parts))


@pytest.mark.parametrize("more", [0, 1])
def test_texts_names_and_outcomes_of_the_size_allowed_pass_and_no_larger_ones(monkeypatch, more):
    monkeypatch.setattr(model_text, "MOST_CHARACTERS", 40)
    monkeypatch.setattr(dialogue, "MOST_CHARACTERS", 40)
    text = f"[7{' ' * (37 + more)}]"
    assert dialogue._problem(text, "stop") == ("too long" if more else "")
    if more:
        with pytest.raises(NotDataError, match="has 41 characters, where 40 are allowed"):
            read_data(text)
    else:
        assert read_data(text) == [7]
    monkeypatch.undo()

    def changed(body):
        body["truths"]["x" * (80 + more)] = "A thing of a certain kind here."
        first, second, *_ = body["actions"].values()
        first["outcomes"] = {f"o{number}": [] for number in range(12 + more)}
        second["outcomes"]["y" * (80 + more)] = []

    found = " ".join(problems(KITES, mutated(changed), 12, 8))
    told = [each in found for each in ("is too long", "more than 12 outcomes", "longer than 80 characters")]
    assert told == [bool(more)] * 3


def test_a_domain_s_structure_has_bounds(monkeypatch):
    cases = [(0.0099, 2.0), (0.01, 2.0), (0.35, 2.0), (0.351, 2.0), (0.1, 0.99), (0.1, 1.0)]
    found = []
    for density, steps in cases:
        monkeypatch.setattr(configuring, "measure", lambda domain, tasks, of=(density, 0.1, steps): Measured(*of))
        found += [problems(KITES, BODY, 12, 8)]
    share = "an outcome rules out {}% of the truths on average, where 1% to 35% are wanted: list {}"
    few = "its games take 0.99 tests on average, fewer than 1: each outcome tells too much"
    assert found == [[share.format(1.0, "more")], [], [], [share.format(35.1, "fewer")], [few], []]


def test_a_domain_of_which_no_games_can_be_made_is_refused(monkeypatch):
    def fail(domain, tasks):
        raise GenerationError(f"{domain.name} has no {tasks} tasks")

    monkeypatch.setattr(configuring, "measure", fail)
    assert problems(KITES, BODY, 12, 8) == ["no games can be made of it: kites has no 5 tasks"]


def test_only_truths_tests_and_notes_of_a_reply_count():
    text = as_reply({"name": "../../x", "title": "Evil", "category": "crime", **BODY})
    outcome, *_ = configured(text)
    data = yaml.safe_load(outcome.extra["result"])
    assert (data["name"], data["title"], data["category"]) == ("kites", "Kites", "biology")
    assert set(read_body(text)) == {"truths", "actions"}
    with pytest.raises(NotDataError):
        read_body("just: text")
    assert patched({"truths": {"a": "x", "b": "y"}}, {"truths": {"a": None, "c": "z"}}) == {
        "truths": {"b": "y", "c": "z"}
    }
    assert patched({"truths": "text"}, {"truths": {"a": "x"}}) == {"truths": {"a": "x"}}


def test_constrained_decoding_allows_what_the_checks_accept():
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate([proposal("Kites"), proposal("Bells")], json.loads(proposing.schema_of(2)))
    jsonschema.validate(BODY, json.loads(configuring.schema_of(12, 8)))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(BODY, json.loads(configuring.schema_of(13, 8)))
    jsonschema.validate(json.loads(true_table(TASK)), json.loads(book_prompts.extraction_schema(TASK)))
    jsonschema.validate([{"kind": "extra", "what": "x"}], json.loads(book_prompts.faults_schema()))


@pytest.mark.vllm
def test_the_schemas_can_be_compiled():
    xgrammar = pytest.importorskip("xgrammar")
    compiler = xgrammar.GrammarCompiler(xgrammar.TokenizerInfo([chr(code) for code in range(128)]))
    for schema in (proposing.schema_of(5), configuring.schema_of(50, 30), book_prompts.faults_schema()):
        assert compiler.compile_json_schema(schema, any_whitespace=False)
    assert compiler.compile_json_schema(book_prompts.extraction_schema(TASK))


# --- books -----------------------------------------------------------------------------------------------------------

MEDICAL = load_domain("medical")
TASK = generate_tasks(MEDICAL, count=1)[0]
BOOK = write_book(TASK, MEDICAL)
ACTION = next(a for a in TASK.actions if a.outcome == "str" and any(state.rules_out for state in a.states))
STATE = next(state for state in ACTION.states if state.rules_out)


def checked(book, *said, repairs=1):
    player = Player(*said)
    draft = Draft(MEDICAL, TASK, book)
    (outcome, tally), conversation = talk(player, lambda c: check_book(c, draft, repairs))
    return outcome, tally, conversation


@pytest.mark.parametrize("size", [(4, 6), (12, 16)])
@pytest.mark.parametrize("name", ["medical", "music", "fantasy", "birds_of_prey"])
def test_our_own_books_are_in_known_forms_and_read_as_they_should(name, size):
    domain = load_domain(name)
    for task in generate_tasks(domain, *size, 3):
        book = write_book(task, domain)
        assert parse(book, task, domain) == ReadBack("equal") and lint_book(book, task) == []


def free_prose(task=TASK):
    """A right book in words that our parser does not know."""
    lines = ["# A guide", "", "What an outcome strikes from the list is certainly wrong.", "", "## The diseases", ""]
    for truth in task.truths:
        lines += [f"**{truth}.** {MEDICAL.definitions[truth]}", ""]
    lines += ["## The diagnostic tests", ""]
    for action in task.actions:
        told = [
            f"Whoever sees “{state.text}” may forget about {', '.join(state.rules_out) or 'no one'}."
            for state in action.states
        ]
        lines += [f"**{action.name}.** {MEDICAL.definitions[action.name]} {' '.join(told)}", ""]
    return "\n".join(lines).strip()


EQUAL, DIFFERS = true_table(TASK), json.dumps({})


def sentence_of(book, state):
    """The sentence that tells an outcome."""
    return next(s for s in re.split(r"(?<=[.;])\s+", book) if state.text in s and any(t in s for t in state.rules_out))


OTHER = next(name for name in TASK.truths if name not in STATE.rules_out)
TOLD = sentence_of(BOOK, STATE)
GONE = ", ".join(STATE.rules_out)
TEST = next(part for part in BOOK.split("\n\n") if part.startswith(f"**{ACTION.name}.**"))


def with_sentence(form):
    """The book, with this sentence on one outcome in place of the one that it has."""
    told = [f"A result of “{s.text}” rules out {', '.join(s.rules_out) or 'no disease'}." for s in ACTION.states]
    told[ACTION.states.index(STATE)] = form.format(o=STATE.text, t=GONE)
    return BOOK.replace(TEST, f"**{ACTION.name}.** {MEDICAL.definitions[ACTION.name]} {' '.join(told)}")


BOOKS = {
    "ours": BOOK,
    "free prose": free_prose(),
    "another truth": BOOK.replace(TOLD, TOLD.replace(STATE.rules_out[0], OTHER)),
    "told twice": BOOK.replace(TOLD, f"{TOLD} A result of “{STATE.text}” rules out {OTHER}.", 1),
    "not told": BOOK.replace(TOLD, "", 1),
    "rules out": with_sentence("A result of “{o}” rules out {t}."),
    "does not": with_sentence("A result of “{o}” does not rule out {t}."),
    "cannot be ruled out": with_sentence("{t} cannot be ruled out by a result of “{o}”."),
    "far from": with_sentence("A result of “{o}” is far from excluding {t}."),
    "unless": with_sentence("A result of “{o}” rules out {t} unless the patient is old."),
    "less": with_sentence("A result of “{o}” rules out {t} less readily than others."),
    "a note on a truth": f"{BOOK}\n\nNote: {STATE.text} never rules out {STATE.rules_out[0]}.",
    "a summary": f"{BOOK}\n\n## Summary\n\nAll in all, {TASK.truths[0]} is what it mostly is.",
    "a farewell": f"{BOOK}\n\nGood luck.",
    "a title of names": BOOK.replace("# ", f"# {TASK.truths[0]}: ", 1),
    "no definition": BOOK.replace(f"**{TASK.truths[0]}.** ", f"About {TASK.truths[0]}: "),
    "misspelled": BOOK.replace(TASK.truths[0], TASK.truths[0][:-1] + "z"),
    "another test": BOOK.replace(ACTION.name, "The Test"),
    "no title": BOOK.removeprefix("# "),
    "confirms": f"{BOOK}\n\nA rash confirms {TASK.truths[0]}; it proves {TASK.truths[1]}. It proves nothing.",
    "hidden": f"{BOOK}\x1b[2J",
    "markup": f"{BOOK}\n\n<b>Look here</b> `x`",
    "long": BOOK + " " * (LONGEST_BOOK - len(BOOK)),
    "too long": BOOK + " " * (LONGEST_BOOK - len(BOOK) + 1),
    "long and misspelled": BOOK.replace(TASK.truths[0], TASK.truths[0][:-1] + "z").ljust(LONGEST_BOOK),
    "empty": "",
}
REST = [name for name in TASK.truths if name not in STATE.rules_out]
TABLES = {
    "right": {},
    "an outcome missing": {STATE.text: None},
    "all left": {STATE.text: []},
    "inverted": {STATE.text: REST},
    "all gone": {STATE.text: list(TASK.truths)},
    "one other": {STATE.text: [*STATE.rules_out[1:], OTHER]},
    "unknown truth": {STATE.text: ["Nobody"]},
    "no list": {STATE.text: "x"},
    "unknown outcome": {"no such": []},
}
FAULTS = json.dumps(
    [{"kind": "extra", "what": "There.\x1b[2J"}, {"kind": "?"}, 7, {"kind": ["extra"]}, {"kind": "leaked"}]
)


NUMBERS = [
    *("A result of {o} rules out {t}.", "A result of {o} {u} rules out {t}.", "A result of {o}{u} rules out {t}."),
    *("A result of {o} {u}s rules out {t}.", "A result of “{o}” rules out {t}.", "A result of {o}.5 rules out {t}."),
    *(
        "If the result is {o} {u}, {t} can be ruled out.",
        "With a result of {o}, one can exclude {t}.",
        "{t} it is not.",
    ),
    *(
        "A result of {o} rules out {t}; a result of {p} rules out no {n}.",
        "A result of {p} rules out {t}.",
        "{o} tells.",
    ),
    *("A result of {o} or {p} rules out {t}.", "A result of 7 rules out {t}.", "The scale shows 7 {u}.", "Only {p}."),
]


def told_numbers():
    """What our parser makes of each way to tell one outcome that is a number."""
    domain = load_domain("chemical")
    task, test = next(
        (task, test) for task in generate_tasks(domain, count=30) for test in task.actions
        if test.unit and test.states[0].rules_out
    )  # fmt: skip
    book = write_book(task, domain)
    part = next(each for each in book.split("\n\n") if each.startswith(f"**{test.name}.**"))
    first, *others = test.states
    noun, gone = domain.truth.singular, ", ".join(first.rules_out)
    rest = [f"A result of {each.text} rules out {', '.join(each.rules_out) or f'no {noun}'}." for each in others]
    for form in NUMBERS:
        said = form.format(o=first.text, p=others[0].text, t=gone, u=test.unit, n=noun)
        own = f"**{test.name}.** {domain.definitions[test.name]} {' '.join([said, *rest])}"
        yield from (f"{said} {parse(each, task, domain)}" for each in (book.replace(part, own), f"{book}\n\n{said}"))


def test_books_are_read_judged_and_written_as_on_record():
    parts = list(told_numbers())
    for name, book in BOOKS.items():
        read = parse(book, TASK, MEDICAL)
        parts += ["", f"# {name}: {read.state}", *read.differences, *lint_book(book, TASK)]
    for name, change in TABLES.items():
        data = json.loads(true_table(TASK))
        data[ACTION.name] |= change
        data[ACTION.name] = {outcome: gone for outcome, gone in data[ACTION.name].items() if gone is not None}
        table, wrong = table_from(data, TASK)
        parts += ["", f"# Table, {name}", *wrong, *compare(table, TASK)]
    spelled = {ACTION.name.upper(): {STATE.text.upper(): [truth.lower() for truth in STATE.rules_out]}}
    assert table_from(spelled, TASK) == ({ACTION.name: {STATE.text: frozenset(STATE.rules_out)}}, [])
    another = next(state for state in ACTION.states if state is not STATE).text
    twice = {ACTION.name: {STATE.text: []}, ACTION.name.lower(): {another: []}}
    assert table_from(twice, TASK) == ({ACTION.name: {STATE.text: frozenset(), another: frozenset()}}, [])
    parts += ["", *(str(table_from(wrong, TASK)) for wrong in ([], {"Nothing": {}}, {ACTION.name: []}))]
    states = [ReadBack("equal"), ReadBack("differs", ("extra: x",)), ReadBack("unreadable", ("unclear: x",))]
    for lint, one, two in itertools.product(([], ["misspelled: x"]), states, states):
        parts.append(f"{lint} {one.state} {two.state}: {decide(lint, one, two)}")
    talks = {
        "ours": [[EQUAL], [DIFFERS, "[]"], ["nothing I can say", "no"]],
        "free prose": [
            [EQUAL],
            [DIFFERS, FAULTS],
            ["no", "still no", "[]"],
            ["Well.", EQUAL],
            ["{a: *b}", "a: [", FAULTS],
        ],
        "another truth": [
            [EQUAL, FAULTS],
            [EQUAL, "no"],
            [EQUAL, "{a: *b}"],
            [EQUAL, Reply("", finish="refusal")],
            [EQUAL, Reply(FAULTS, finish="refusal")],
            [EQUAL, '{"a": 1}'],
        ],
        "misspelled": [[EQUAL, json.dumps([{"kind": "unclear", "what": str(n)} for n in range(30)])]],
        "too long": [["[]"]],
        "long and misspelled": [[EQUAL, FAULTS]],
        "empty": [[EQUAL]],
    }
    for name, scripts in talks.items():
        for said in scripts:
            draft = Draft(MEDICAL, TASK, BOOKS[name])
            parts += ["", f"# Check of {name}", *told(lambda c, draft=draft: check_book(c, draft, 1), *said)]
    wrapped = [f"```markdown\n{BOOK}\n```", f"Here it is: <book>\n{BOOK}\n</book> Enjoy!", f"<BOOK>{BOOK}", "```\nx"]
    draft = Draft(MEDICAL, TASK)
    for said in (*([text] for text in wrapped), [cut(BOOK[:900]), BOOK[900:]], [cut("# A ")], [""], ["``` ```"]):
        (outcome, tally), conversation = talk(Player(*said), lambda c: write_by_model(c, draft))
        parts += ["", f"# Written: {outcome.success} {outcome.steps} {tally} {rules(conversation)}"]
        parts.append(
            f"{outcome.extra['result'] == BOOK} {brief(outcome.extra['result'], 40)} {outcome.extra['complaints']}"
        )
    check_golden("kumo_pipeline_books", "\n".join(parts))


def test_a_revision_is_shown_the_book_and_its_faults_and_the_table():
    draft = Draft(MEDICAL, TASK, "# Old book", ("missing: something",))
    (outcome, _), conversation = talk(Player(BOOK), lambda c: revise_book(c, draft))
    said = conversation.turns[0].turn.chat[0].parts[0]
    assert outcome.extra["result"] == BOOK and "# Old book" in said and "- missing: something" in said
    assert all(state.text in said for action in TASK.actions for state in action.states)
    assert all(MEDICAL.definitions[truth] in said for truth in TASK.truths)


def test_a_revision_is_shown_no_more_of_a_book_than_one_may_hold(monkeypatch):
    monkeypatch.setattr("evals.suites.kumo.lab.pipeline.books.LONGEST_BOOK", 5)
    _, conversation = talk(Player(BOOK), lambda c: revise_book(c, Draft(MEDICAL, TASK, "# Old book")))
    assert "<book>\n# Old\n</book>" in conversation.turns[0].turn.chat[0].parts[0]


def test_the_example_of_a_range_has_the_unit_of_the_first_test_that_has_one():
    actions = [
        dataclasses.replace(action, unit=unit) for action, unit in zip(TASK.actions, ("", "mg", "kg"), strict=False)
    ]
    task = dataclasses.replace(TASK, actions=(*actions, *TASK.actions[3:]))
    assert "as in 5 to 12 mg." in book_prompts.write(task, MEDICAL)[0].parts[0]


def test_the_most_calls_of_an_item_are_never_exceeded():
    endless = [cut(f"never ending {n} ") for n in range(99)]
    _, conversation = talk(Player(*endless), lambda c: configure(c, KITES, 12, 8, 2))
    assert len(conversation.turns) == most_calls("configure", 2) == 12
    _, _, conversation = checked(free_prose(), *endless, repairs=2)
    assert len(conversation.turns) == most_calls("check", 2) == 16


# --- the folder ------------------------------------------------------------------------------------------------------


def test_a_stage_is_complete_once_all_that_was_planned_is_there():
    done = {"index": 0, "status": "done"}
    runs = (
        StageRun(0, ()),
        StageRun(1, ()),
        StageRun(1, (done,)),
        StageRun(2, (done, {"index": 1, "status": "failed"})),
    )
    assert [run.complete for run in runs] == [False, False, True, True]
    assert runs[-1].results() == {0: done}


def test_all_shipped_domains_may_be_named_at_once_and_no_plan_is_too_large(tmp_path):
    books = {"folder": str(tmp_path), "stage": "write", "domains": ["medical"]}
    every = KumoPipeline(**books, existing=["all", "x.yaml"], tasks_per_domain=1).existing
    assert every == (*available_domains(), "x.yaml")
    with pytest.raises(ValueError, match="tasks"):
        KumoPipeline(**books, tasks_per_domain=10**9)


def test_rows_of_a_stage_come_by_their_numbers_and_a_failed_one_counts_its_calls(tmp_path):
    suite = KumoPipeline(str(tmp_path), stage="write", domains=["medical"], tasks_per_domain=3)
    plan = plan_for(suite, {"m": ""})
    turns = tuple(PlayedTurn(Turn(plan[0], number, CHAT), Reply("a", "length")) for number in range(2))
    empty = {**dict.fromkeys(KumoPipeline.columns), "complaints": []}
    records = [Record(plan[2], Outcome(True, 1, extra=empty), "", turns[:1], 1.0)]
    records += [Record(each, None, "gone", turns, 1.0) for each in plan[1::-1]]
    rows = records_to_table(records, ledger_columns(suite))
    folder = Folder(tmp_path)
    write_run(folder.run_dir("write"), plan, rows)
    assert [row["index"] for row in folder.run("write").rows] == [0, 1, 2]
    [row] = tables.stage_table("t", RunData.of_tables(plan_to_table(plan), rows).of(suite.name)).rows
    assert row[:6] == ("write", 3, 1, 0, 2, 5)


def test_books_of_all_rounds_are_lines_in_one_order():
    said, tasks = [], [(MEDICAL, task) for task in generate_tasks(MEDICAL, 4, 6, 3)]
    accepted = {"accepted_by": "parser", "complaints": []}
    rounds = {
        1: {2: {**accepted, "result": "# C"}, 1: {**accepted, "result": "# B"}},
        2: {0: {**accepted, "result": "# A"}},
    }
    folder = SimpleNamespace(
        run=lambda stage, number: SimpleNamespace(results=lambda: rounds[number]),
        add=lambda name, text: True,
        extend=lambda name, lines: said.append(lines) or True,
    )
    save_accepted(folder, SimpleNamespace(stage="check", round=2, tasks=tasks, difficulty="easy"))
    assert [lines == sorted(lines) for lines in said] == [True] and len(said[0]) == 3


def test_books_are_written_for_the_domains_that_are_named_before_those_of_the_folder(tmp_path):
    suite = KumoPipeline(str(tmp_path), stage="write", domains=["medical"], tasks_per_domain=1)
    assert suite.tasks == [(MEDICAL, TASK)]


def test_a_domain_with_the_truths_or_the_tests_of_a_known_one_is_not_kept(tmp_path, monkeypatch):
    row = {"index": 0, "status": "done", "task": "kites", "result": configuring.to_yaml({**KITES.header, **BODY})}
    monkeypatch.setattr(Folder, "run", lambda folder, stage: StageRun(1, (row,)))
    truths, tests, found = BODY["truths"], BODY["actions"], []
    for number, (known, their_tests) in enumerate(((truths, ["x"]), (["x"], tests), (tests, truths))):
        profiles = [Profile.of("old", "Old", known, their_tests)]
        monkeypatch.setattr(KumoPipeline, "known", lambda suite, profiles=profiles: [*profiles])
        folder = Folder(tmp_path / str(number))
        found.append((save_accepted(folder, KumoPipeline("made", stage="configure")), len(folder.domains())))
    like = "kites: a near-duplicate of 'old': it shares 100% of the names of its {}"
    assert found == [(Saved((like.format("truths"),)), 0), (Saved((like.format("tests"),)), 0), (Saved(), 1)]
    monkeypatch.setattr(Folder, "run", lambda folder, stage: None)
    assert save_accepted(Folder(tmp_path), KumoPipeline("made", stage="configure")) == Saved()


def test_a_file_that_is_there_is_never_overwritten(tmp_path):
    folder = Folder(tmp_path / "made")
    assert folder.add("domains/a.yaml", "one") and folder.add("domains/a.yaml", "one")
    assert not folder.add("domains/a.yaml", "two") and (tmp_path / "made/domains/a.yaml").read_text() == "one"
    assert folder.extend("books.jsonl", ["a\n"]) and folder.extend("books.jsonl", ["a\n", "b\n"])
    assert not folder.extend("books.jsonl", ["b\n", "c\n"])
    assert (tmp_path / "made/books.jsonl").read_text() == "a\nb\n"
    assert sorted(path.name for path in (tmp_path / "made").rglob("*") if path.is_file()) == ["a.yaml", "books.jsonl"]


def test_a_round_checks_what_was_written_last_and_revises_what_its_check_refused(tmp_path, monkeypatch):
    def stored(text, planned, *accepted):
        rows = ({"index": place, "status": "failed" if by is None else "done", "result": text, "complaints": [text],
                 "accepted_by": by} for place, by in enumerate(accepted))  # fmt: skip
        return StageRun(planned, tuple(rows))

    runs = {("write", 1): stored("w", 3, "", "", None), ("check", 1): stored("c1", 3, "us", "", None)}
    runs |= {("revise", 1): stored("r1", 2, "", ""), ("check", 2): stored("c2", 2, "", "")}
    runs |= {("revise", 2): stored("r2", 2, "")}  # not complete
    monkeypatch.setattr(Folder, "run", lambda _, stage, number=1: runs.get((stage, number)))
    folder, tasks = Folder(tmp_path), [(None, None)] * 3
    for number, (checked, revised) in enumerate([(["w", "w"], ["w"]), (["r1", "r1"], ["r1", "r1"]), ([], [])], start=1):
        assert [draft.book for _, draft in folder.drafts("check", number, tasks)] == checked
        assert [draft.book for _, draft in folder.drafts("revise", number, tasks)] == revised
    assert folder.drafts("revise", 1, tasks) == [(1, Draft(None, None, "w", ("c1",)))]
    assert folder.drafts("revise", 1, tasks[:1]) == [] and folder.drafts("check", 1, tasks[:1])[0][0] == 0, (
        "fewer tasks"
    )
    assert (folder.round("check"), folder.round("revise")) == (3, 2)


@pytest.mark.slow
def test_a_file_may_hold_any_number_of_proposals(tmp_path):
    names = draw_names(250, "words", random.Random(1))
    proposals = [Proposal.read(proposal(name), "biology") for name in names]
    assert Folder(tmp_path).add("proposals.yaml", proposals_text(proposals))
    assert Folder(tmp_path).proposals() == proposals and Folder(tmp_path).holdings().startswith("250 proposals")
    kept = [each for each, reason in choose(proposals, []) if not reason]
    assert 50 < len(kept) < 250 and not [each for each, reason in choose(kept, []) if reason]


def test_a_damaged_file_of_proposals_or_a_domain_that_is_not_there_is_named(tmp_path):
    assert Folder(tmp_path).holdings() == "0 proposals, 0 domains, 0 books accepted"
    with pytest.raises(ValueError, match="medicall") as refused:
        folders.load_all(["medical", "medicall"])
    assert type(refused.value) is ValueError
    (tmp_path / "proposals.yaml").write_text("- !!python/object/apply:os.system ['true']")
    with pytest.raises(ValueError, match=r"proposals\.yaml"):
        Folder(tmp_path).proposals()
    for text, said in (
        ("hello", "must be a list"),
        ("title: x", "must be a list"),
        ("- 5", "proposal 1: each entry must"),
    ):
        (tmp_path / "proposals.yaml").write_text(text)
        with pytest.raises(ValueError, match=rf"proposals\.yaml: {said}"):
            Folder(tmp_path).proposals()
    (tmp_path / "proposals.yaml").write_text(
        yaml.safe_dump([{**dataclasses.asdict(KITES), "truths": ["a"], "actions": ["b"]}])
    )
    assert Folder(tmp_path).proposals()[0].name == "kites"


# --- all stages ------------------------------------------------------------------------------------------------------


class Clumsy:
    """Writes two domains of four and two books of four; the others are copied, wrong, cut off or not written at all."""

    def __init__(self):
        self.games, self.drafts = [], 0

    async def reply(self, turn):
        said = getattr(self, stage_of(turn))(turn)
        if isinstance(said, Exception):
            raise said
        return said if isinstance(said, Reply) else Reply(said, prompt_tokens=100, completion_tokens=7, cost=0.25)

    def propose(self, turn):
        titles = {0: ("Kites", "Kite"), 2: ("Lanterns", "Bells"), 3: ("Drüms", "Knot", "Cups"), 4: ("Flutes", "Pots")}
        number = turn.episode.index
        return as_reply([*map(proposal, titles[number])]) if number in titles else PlayerError("gone", "endpoint")

    def configure(self, turn):
        title = title_of(turn)
        if title == "Bells":
            return ["I cannot.", "I can not."][turn.number % 2]
        return as_reply(domain_body({"Lanterns": "Kites"}.get(title, title)))

    def write(self, turn):
        number, (domain, task) = turn.episode.index, game_of(turn, self.games)
        book = write_book(task, domain)
        if number == 1:
            return cut("# A cut book")
        if number == 3:
            return PlayerError("gone", "endpoint")
        return book.replace("rules out", "strikes out") if number == 0 else book.replace(task.truths[0], "Nobody")

    def revise(self, turn):
        domain, task = game_of(turn, self.games)
        return write_book(task, domain) if turn.episode.index == 1 else f"# Nothing\n\n**{task.truths[0]}.** Well."

    def extract(self, turn):
        return "{}" if turn.episode.index == 1 else true_table(game_of(turn, self.games)[1])

    def faults(self, turn):
        return json.dumps([{"kind": "misspelled", "what": f"by {turn.episode.index}\x1b[2J"}])


def shown_files(path):
    return [
        f"{each}: {digest(each.read_text())}"
        for each in sorted(path.rglob("*"))
        if "runs" not in each.parts and each.is_file()
    ]


def test_a_clumsy_model_fills_the_folder_as_on_record(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(configuring, "measure", lambda domain, tasks: Measured(0.1, 0.1, 2.0))
    monkeypatch.setattr(stage_suite, "shipped_profiles", lambda: [Profile.of_domain(MEDICAL)])
    monkeypatch.setattr(stage_suite, "shipped_titles", lambda: ("Medical",))
    monkeypatch.setattr(folders, "load_domain", functools.cache(load_domain))
    folder, player, parts, found = Folder(Path("made")), Clumsy(), [], []
    asked = {"proposals": 9, "per_reply": 2, "truths": 12, "actions": 8, "tasks_per_domain": 2, "existing": "knots"}
    order = [("propose", 1), ("configure", 1), ("write", 1), ("check", 1), ("revise", 1), ("check", 2), ("revise", 2)]
    for stage, number in order:
        suite = KumoPipeline("made", stage=stage, round=number, **asked)
        player.games = player.games or (suite.tasks if stage == "write" else [])
        plan = plan_for(suite, {"model": ""})
        parts += ["", f"# {stage} {number}, now in round {folder.round(stage)}"]
        for item, episode in zip(suite.items, plan, strict=True):
            place = f"{episode.id[:12]} {episode.task} {episode.level} {episode.mode} {episode.index} {episode.seed}"
            tokens = f"{episode.prompt_tokens:.0f} {item.completion_tokens:.0f} {digest(repr(item.chat))}"
            parts.append(f"{place} {episode.budget} {episode.calls:g} {tokens}")
        records = [asyncio.run(play_episode(suite, episode, player)) for episode in plan]
        for record in records:
            extra = record.outcome.extra if record.outcome else {}
            shown = {name: brief(str(value), 150) for name, value in extra.items()}
            parts.append(f"  {record.episode.index}: {[turn.rule for turn in record.turns]} {record.error} {shown}")
        rows = records_to_table(records, ledger_columns(suite))
        write_run(folder.run_dir(stage, number), plan, rows)
        run = RunData.of_tables(plan_to_table(plan), rows).of(suite.name)
        found += suite.results(run, "scores")
        assert suite.results(run, "diagnostics") == []
        kept = dataclasses.replace(suite, proposals=4) if stage == "propose" else suite
        done, saved = folder.run(stage, number), save_accepted(folder, kept)
        parts += [f"{done.planned} {len(done.rows)} {done.complete} {sorted(done.results())}", *saved.refused]
        parts += [f"{saved.differing} {folder.holdings()}", *shown_files(folder.path)]
    parts += ["", WRITERS[".md"](tables.joined(found)), *map(str, found[0].notes), f"headline {found[0].headline}"]
    Path("made/books.jsonl").write_text("mine\n")
    for path in (Path("made/proposals.yaml"), *folder.domains(), *Path("made/books").iterdir()):
        path.write_text(path.read_text() + "\n# Mine.\n")
    before = shown_files(folder.path)
    for stage in ("propose", "configure", "write", "check"):
        parts.append(f"{stage}: {save_accepted(folder, KumoPipeline('made', stage=stage, round=2, **asked))}")
    assert shown_files(folder.path) == before
    check_golden("kumo_stages", "\n".join(parts))
    for stage, damaged in (("write", "episodes/part-000001-test.parquet"), ("configure", "plan.parquet")):
        (folder.run_dir(stage) / damaged).write_bytes(b"PAR1")
        with pytest.raises(ValueError, match=f"{folder.run_dir(stage)}"):
            folder.run(stage)
    for error in (OSError(5, "bad disk"), pa.ArrowInvalid("bad page")):
        monkeypatch.setattr(folders, "read_parquet", Mock(side_effect=error))
        with pytest.raises(ValueError, match=r"^made/runs/revise-1: cannot be read: .*bad (disk|page)$"):
            folder.run("revise", 1)
