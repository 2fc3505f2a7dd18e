"""What the pipeline makes of a model's text: data within bounds, repairs, refusals, and books that are read back."""

import asyncio
import dataclasses
import itertools
import json
import os
import random
import re
import time
from decimal import Decimal

import pytest
import yaml

from envs.kumo import generate_tasks, load_domain, write_book
from envs.kumo.likeness import shipped_profiles
from envs.kumo.properties import range_of
from envs.kumo.structure import Measured
from envs.kumo.vocabulary import draw_names
from evals.conversation import Conversation, PlayedTurn, Record
from evals.ledger.records import plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.suite import ledger_columns
from evals.suites.kumo.lab.pipeline import book_prompts, dialogue, model_text, prompts, tables
from evals.suites.kumo.lab.pipeline import configure as configuring
from evals.suites.kumo.lab.pipeline import proposals as proposing
from evals.suites.kumo.lab.pipeline.books import Draft, check_book, revise_book
from evals.suites.kumo.lab.pipeline.books import write_book as write_by_model
from evals.suites.kumo.lab.pipeline.configure import configure, patched, problems, read_body
from evals.suites.kumo.lab.pipeline.dialogue import CONTINUATIONS, Tally, ask_whole, joined, loops
from evals.suites.kumo.lab.pipeline.folder import Folder, StageRun, proposals_text
from evals.suites.kumo.lab.pipeline.items import Estimate, most_calls, sample_items
from evals.suites.kumo.lab.pipeline.model_text import NotDataError, hidden_in, read_data
from evals.suites.kumo.lab.pipeline.proposals import Proposal, choose, file_name, propose, read_proposals
from evals.suites.kumo.lab.pipeline.reading import LONGEST_BOOK, ReadBack, compare, decide, lint_book, parse, table_from
from evals.suites.kumo.lab.pipeline.suite import KumoPipeline
from evals.suites.kumo.lab.pipeline.tables import estimate_table
from evals.types import Episode, Outcome, Reply, Turn, message
from tests.scripted_writer import as_reply, domain_body, proposal, true_table

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


def test_characters_that_nobody_sees_are_found_anywhere():
    assert hidden_in({"a": ["b", {"c\u202e": 1}]}) == "\\u202e" and hidden_in(["\x1b[2J"]) == "\\x1b"
    assert hidden_in(["zero\u200bwidth"]) == "\\u200b" and hidden_in({"a": "Café – “x”\nb", "c": 3}) == ""


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
    assert whole_of("")[0].problem == "empty" and whole_of("x" * 400_000)[0].problem == "too long"
    assert whole_of(Reply("no", finish="refusal"))[0].problem == "refused"
    assert not loops("".join(f"- {n % 40}: [Otter, Heron, Mallard, Fox]\n" for n in range(90))), "lists may repeat"
    assert not loops("a long text that does not repeat itself " + " ".join(map(str, range(200))))


def test_what_a_continuation_repeats_is_left_out():
    assert joined("truths:\n  Gout: A painful", "  Gout: A painful swelling.") == "truths:\n  Gout: A painful swelling."
    assert joined("```yaml\na: 1\nb:", "```yaml\n 2\n") == "```yaml\na: 1\nb: 2\n"
    assert joined("aa", "ab") == "aaab" and joined("", "x") == "x"


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


def test_a_useless_reply_is_sent_back_with_the_complaint_and_given_up_in_the_end():
    (outcome, tally), conversation = proposed(
        "I would rather talk.", as_reply([{"title": "X"}]), as_reply([proposal("Kites")])
    )
    assert outcome.success and tally.repairs == 2 and rules(conversation) == ["unreadable", "unreadable", "read"]
    last = conversation.turns[2].turn.chat
    assert "must be a mapping with the keys title" in last[-1].parts[0] and "title: X" in last[-2].parts[0]
    (outcome, tally), conversation = proposed("no", "nope", "never", "on no account")
    assert not outcome.success and len(conversation.turns) == 3 and json.loads(outcome.extra["result"]) == []
    assert outcome.extra["complaints"]
    (outcome, tally), conversation = proposed("no")
    assert rules(conversation) == ["unreadable", "repeats its last reply"], (
        "who says the same is not asked a third time"
    )


def test_a_proposal_is_refused_for_each_thing_that_is_wrong_and_the_others_stay():
    wrong = [
        proposal("Kites", title=7),
        proposal("Kites", title="x" * 61),
        proposal("Kites", title="!!!"),
        proposal("Kites", title="<b>Kites"),
        proposal("Kites", goal=""),
        proposal("Kites", truth="kite"),
        proposal("Kites", truth={"singular": "kite"}),
        proposal("Kites", truths=[]),
        proposal("Kites", truths=[["x"]]),
        proposal("Kites", goal="Find\x1b]0;hit\x07 it."),
        proposal("Kites", goal="Find it.\u202e"),
        "text",
        {key: value for key, value in proposal("Kites").items() if key != "goal"},
    ]
    found, complaints = read_proposals(as_reply([*wrong, proposal("Bells")]), "biology")
    assert [each.title for each in found] == ["Bells"] and len(complaints) == len(wrong)
    assert all("\x1b" not in each and "\u202e" not in each for each in complaints)


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("../../etc/passwd", "etc_passwd"),
        ("/root/.ssh", "root_ssh"),
        ("-rf .", "rf"),
        ("Café & Bar", "cafe_bar"),
        ("3D Printers", "domain_3d_printers"),
        ("a" * 200, "a" * 40),
        ("CON\x00", "con"),
    ],
)
def test_no_title_makes_a_path(title, name):
    assert file_name(title) == name and re.fullmatch(r"[a-z][a-z0-9_]*", name)
    with pytest.raises(ValueError, match="Latin"):
        file_name("北京 42")


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


def test_repairs_end_and_the_refusal_says_why():
    small = {**BODY, "truths": dict(list(BODY["truths"].items())[:3])}
    outcome, tally, conversation = configured(*(as_reply({**small, "notes": [f"n{n}"]}) for n in range(9)))
    assert not outcome.success and len(conversation.turns) == 3 and tally.repairs == 2
    assert outcome.extra["result"] == "" and outcome.extra["complaints"]
    assert rules(conversation) == ["refused by the checks"] * 3
    outcome, _, conversation = configured("```yaml\n" + BOMB, "&a *b", as_reply(BODY))
    assert outcome.success and rules(conversation) == ["unreadable", "unreadable", "accepted"]
    outcome, _, conversation = configured(cut("x"), as_reply(BODY), repairs=0)
    assert not outcome.success or rules(conversation)[-1] == "accepted"


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


def test_touching_ranges_and_twins_take_no_second_call():
    """Nearly all of the domains that models wrote for the paper have these; each was once sent back and then refused."""
    outcome, tally, _ = configured(as_reply(mutated(_touching_and_twins)), repairs=0)
    assert outcome.success and tally == Tally()
    said = "\n".join(outcome.extra["complaints"])
    assert "ranges parted" in said and "just the same outcomes" in said


def mutated(change):
    body = json.loads(json.dumps(BODY))
    change(body)
    return body


def _each(body, gone_of):
    names = list(body["truths"])
    for number, action in enumerate(body["actions"].values()):
        for place, outcome in enumerate(action["outcomes"]):
            action["outcomes"][outcome] = gone_of(names, number, place)


FAULTY = {
    "too few truths": (lambda b: b["truths"].popitem(), "Kites"),
    "too few tests": (lambda b: b["actions"].popitem(), "at least 8 are needed"),
    "no numbers": (lambda b: [b["actions"].pop(n) for n in list(b["actions"])[::3]], "numbers"),
    "a hidden character": (lambda b: b["truths"].update({"Zero\u200b": "A thing of a certain kind here."}), "hidden"),
    "a terminal code": (lambda b: b["truths"].update({"Esc\x1b[2J": "A thing of a certain kind here."}), "hidden"),
    "a very long name": (lambda b: b["truths"].update({"x" * 81: "A thing of a certain kind here."}), "too long"),
    "very many truths": (lambda b: b["truths"].update({f"T{n}": "x" for n in range(300)}), "are allowed"),
    "very many outcomes": (
        lambda b: next(iter(b["actions"].values()))["outcomes"].update({f"o{n}": [] for n in range(20)}),
        "more than 12 outcomes",
    ),
    "markup in a name": (
        lambda b: b["truths"].update({"<script>": "A thing of a certain kind here."}),
        "neither < nor >",
    ),
    "too many rule-outs": (
        lambda b: _each(
            b, lambda names, test, place: [n for n in names if random.Random(f"{n}{test}").randrange(3) != place]
        ),
        "list fewer",
    ),
}


@pytest.mark.parametrize(("change", "complaint"), FAULTY.values(), ids=FAULTY)
def test_a_faulty_domain_is_refused_with_its_fault(change, complaint):
    found = problems(KITES, mutated(change), 12, 8)
    assert any(complaint in each for each in found), found
    assert all("\x1b" not in each and len(each) < 400 for each in found)


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


@pytest.mark.parametrize(
    ("density", "steps", "complaint"),
    [(0.005, 2.0, "list more"), (0.36, 2.0, "list fewer"), (0.1, 0.9, "tells too much"), (0.1, 1.0, "")],
)
def test_a_domain_s_structure_has_bounds(density, steps, complaint, monkeypatch):
    monkeypatch.setattr(configuring, "measure", lambda domain, tasks: Measured(density, 0.1, steps))
    found = problems(KITES, BODY, 12, 8)
    assert len(found) == bool(complaint) and all(complaint in each for each in found)


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


@pytest.mark.parametrize(
    ("book", "said", "by", "parser", "model"),
    [
        (BOOK, [EQUAL], "both", "equal", "equal"),
        (BOOK, [DIFFERS, "[]"], "parser", "equal", "differs"),
        (BOOK, ["nothing I can say", "no"], "parser", "equal", "unreadable"),
        (free_prose(), [EQUAL], "model", "unreadable", "equal"),
        (free_prose(), [DIFFERS, "[]"], "", "unreadable", "differs"),
        (free_prose(), ["no", "still no", "[]"], "", "unreadable", "unreadable"),
    ],
)
def test_a_book_is_accepted_by_our_parser_or_in_free_prose_by_what_a_model_extracts(book, said, by, parser, model):
    outcome, _, _ = checked(book, *said)
    assert outcome.success == bool(by)
    assert (outcome.extra["accepted_by"], outcome.extra["parser"], outcome.extra["model"]) == (by, parser, model)
    assert outcome.extra["result"] == (book if by else "") and bool(outcome.extra["complaints"]) != bool(by)


def sentence_of(book, state):
    """The sentence that tells an outcome."""
    return next(s for s in re.split(r"(?<=[.;])\s+", book) if state.text in s and any(t in s for t in state.rules_out))


def test_a_book_that_our_parser_reads_otherwise_is_refused_whatever_the_model_says():
    names = [name for name in TASK.truths if name not in STATE.rules_out]
    wrong = sentence_of(BOOK, STATE)
    book = BOOK.replace(wrong, wrong.replace(STATE.rules_out[0], names[0]))
    assert book != BOOK
    outcome, _, conversation = checked(
        book, EQUAL, json.dumps([{"kind": "extra", "what": "There.\x1b[2J"}, {"kind": "?"}])
    )
    assert outcome.extra["parser"] == "differs" and outcome.extra["model"] == "equal" and not outcome.success
    kinds = {each.partition(":")[0] for each in outcome.extra["complaints"]}
    assert {"missing", "extra"} <= kinds and not any("\x1b" in each for each in outcome.extra["complaints"])
    assert rules(conversation) == ["table equal", "read"], "only a refused book is searched for faults"


NEGATED = {
    "does not": "A result of “{o}” does not rule out {t}.",
    "cannot be ruled out": "{t} cannot be ruled out by a result of “{o}”.",
    "far from": "A result of “{o}” is far from excluding {t}.",
    "unless": "A result of “{o}” rules out {t} unless the patient is old.",
    "less": "A result of “{o}” rules out {t} less readily than others.",
}


@pytest.mark.parametrize("form", NEGATED.values(), ids=NEGATED)
def test_our_parser_trusts_itself_only_with_sentences_that_it_knows(form):
    """It would read each of these as a rule-out, and find the table right."""
    for action in TASK.actions:
        state = next((s for s in action.states if isinstance(s.value, str) and len(s.rules_out) == 1), None)
        if state is None:
            continue
        head = BOOK.index(f"**{action.name}.**")
        body = BOOK[head:].split("\n\n")[0]
        told = [f"A result of “{s.text}” rules out {', '.join(s.rules_out) or 'no disease'}." for s in action.states]
        told[action.states.index(state)] = form.format(o=state.text, t=state.rules_out[0])
        new = f"**{action.name}.** {MEDICAL.definitions[action.name]} {' '.join(told)}"
        assert parse(BOOK.replace(body, new), TASK, MEDICAL).state == "unreadable"
        return
    pytest.fail("the task has no outcome to try it on")


def test_a_book_in_known_forms_that_contradicts_itself_is_refused():
    told = sentence_of(BOOK, STATE)
    other = next(name for name in TASK.truths if name not in STATE.rules_out)
    twice = BOOK.replace(told, f"{told} A result of “{STATE.text}” rules out {other}.", 1)
    outcome, *_ = checked(twice, EQUAL, "[]")
    assert outcome.extra["parser"] == "differs" and outcome.extra["model"] == "equal" and not outcome.success
    assert "told twice" in outcome.extra["complaints"][0]
    less = BOOK.replace(f"**{TASK.truths[0]}.** ", f"About {TASK.truths[0]}: ")
    assert parse(less, TASK, MEDICAL).state != "equal"


def test_a_contradiction_outside_the_paragraphs_on_tests_is_not_overlooked():
    for more in (
        f"Note: {STATE.text} never rules out {STATE.rules_out[0]}.",
        f"## Summary\n\nAll in all, {TASK.truths[0]} is what it mostly is.",
    ):
        assert parse(f"{BOOK}\n\n{more}", TASK, MEDICAL).state == "unreadable"
    assert parse(f"{BOOK}\n\nGood luck.", TASK, MEDICAL).state == "equal"


def test_a_book_is_searched_for_faults_that_need_no_model():
    truth, test = TASK.truths[0], ACTION.name
    found = lint_book(BOOK.replace(truth, truth[:-1] + "z"), TASK)
    assert any(each.startswith("misspelled") and truth in each and truth[:-1] + "z" in each for each in found)
    assert any(test in each for each in lint_book(BOOK.replace(test, "The Test"), TASK))
    assert lint_book(BOOK.removeprefix("# "), TASK)[0].startswith("chatter")
    assert lint_book(BOOK + "\n\nA rash confirms " + truth + ".", TASK)[0].startswith("confirmed")
    assert lint_book(BOOK + "\x1b[2J", TASK)[0].startswith("unclear")
    assert any("<" in each for each in lint_book(BOOK + "\n\n<b>Look here</b>", TASK))
    too_long = BOOK + "\n" * (LONGEST_BOOK - len(BOOK) + 1)
    assert lint_book(too_long, TASK)[0].startswith("chatter")
    assert lint_book(too_long[:-1], TASK) == lint_book(BOOK, TASK)
    equal = ReadBack("equal")
    assert decide(["misspelled: x"], equal, equal).accepted_by == "" and decide([], equal, equal).accepted_by == "both"


def table_with(change):
    table = {name: dict(outcomes) for name, outcomes in json.loads(true_table(TASK)).items()}
    change(table)
    return table


def test_differences_are_named_by_their_kind():
    rest = [name for name in TASK.truths if name not in STATE.rules_out]

    def kinds(change):
        table, wrong = table_from(table_with(change), TASK)
        assert not wrong
        return [each.partition(":")[0] for each in compare(table, TASK)]

    assert kinds(lambda t: None) == []
    assert kinds(lambda t: t[ACTION.name].pop(STATE.text)) == ["missing"]
    assert kinds(lambda t: t[ACTION.name].update({STATE.text: []})) == ["missing"]
    assert kinds(lambda t: t[ACTION.name].update({STATE.text: rest})) == ["inverted"]
    assert kinds(lambda t: t[ACTION.name].update({STATE.text: list(TASK.truths)})) == ["extra"]


def test_an_extraction_names_only_what_there_is():
    name, state = ACTION.name, STATE.text
    for wrong in (
        [],
        {"Nothing": {}},
        {name: []},
        {name: {"no such": []}},
        {name: {state: "x"}},
        {name: {state: ["Nobody"]}},
    ):
        assert table_from(wrong, TASK)[1], wrong
    spelled = {name.upper(): {state.upper(): [truth.lower() for truth in STATE.rules_out]}}
    assert table_from(spelled, TASK) == ({name: {state: frozenset(STATE.rules_out)}}, [])


def test_an_extraction_that_cannot_be_read_is_asked_for_again_with_the_complaint():
    outcome, tally, conversation = checked(free_prose(), "Well.", EQUAL)
    assert outcome.extra["accepted_by"] == "model" and tally.repairs == 1
    assert rules(conversation) == ["unreadable", "table equal"]
    assert EQUAL not in conversation.turns[0].turn.chat[0].parts[0], "who extracts does not see the table"


def test_a_book_is_written_whole_or_not_at_all():
    draft = Draft(MEDICAL, TASK)
    half = len(BOOK) // 2
    (outcome, tally), conversation = talk(Player(cut(BOOK[:half]), BOOK[half:]), lambda c: write_by_model(c, draft))
    assert outcome.extra["result"] == BOOK and tally.continuations == 1 and rules(conversation)[-1] == "written"
    for wrapped in (f"```markdown\n{BOOK}\n```", f"Here it is: <book>\n{BOOK}\n</book> Enjoy!"):
        (outcome, _), _ = talk(Player(wrapped), lambda c: write_by_model(c, draft))
        assert outcome.extra["result"] == BOOK
    (outcome, _), _ = talk(Player(cut("# A ")), lambda c: write_by_model(c, draft))
    assert not outcome.success and outcome.extra["result"] == ""
    refused, _, conversation = checked("", EQUAL)
    assert (refused.extra["parser"], refused.extra["model"]) == ("unreadable", "unreadable")
    assert not refused.success and refused.extra["complaints"] and not conversation.turns, "nothing is asked of no book"


def test_a_revision_is_shown_the_book_and_its_faults_and_the_table():
    draft = Draft(MEDICAL, TASK, "# Old book", ("missing: something",))
    (outcome, _), conversation = talk(Player(BOOK), lambda c: revise_book(c, draft))
    said = conversation.turns[0].turn.chat[0].parts[0]
    assert outcome.extra["result"] == BOOK and "# Old book" in said and "- missing: something" in said
    assert all(state.text in said for action in TASK.actions for state in action.states)
    assert all(MEDICAL.definitions[truth] in said for truth in TASK.truths)


def test_the_most_calls_of_an_item_are_never_exceeded():
    endless = [cut(f"never ending {n} ") for n in range(99)]
    _, conversation = talk(Player(*endless), lambda c: configure(c, KITES, 12, 8, 2))
    assert len(conversation.turns) == most_calls("configure", 2) == 12
    _, _, conversation = checked(free_prose(), *endless, repairs=2)
    assert len(conversation.turns) == most_calls("check", 2) == 16


def test_an_estimate_is_for_the_items_or_for_as_many_as_them():
    items = sample_items("write", "easy", 50, 30) * 3
    one = Estimate.of("write", items[:1], 2)
    assert (one.items, one.calls, one.most_calls) == (1, 1.1, 4)
    length = sum(len(part) for part in items[0].chat[0].parts)
    assert one.prompt_tokens == pytest.approx(1.1 * length / 4) and one.completion_tokens > 300
    for many in (
        Estimate.of("write", items, 2),
        Estimate.of("write", items[:1], 2, 3),
        Estimate.of("write", items, 2, 2.5),
    ):
        assert many.items == 3 and many.most_calls == 12
        assert many.prompt_tokens == pytest.approx(3 * one.prompt_tokens)
        assert many.completion_tokens == pytest.approx(3 * one.completion_tokens)
    assert Estimate.of("write", [], 2).calls == 0
    table = estimate_table([one, one], 2.0, 10.0, 1_000)
    cost = 2 * (2 * one.prompt_tokens + 10 * one.completion_tokens) / 1e6
    assert table.rows[-1][:4] == ("all", 2, 2, 8) and table.rows[-1][6] == 8_000
    assert float(table.rows[-1][7]) == pytest.approx(cost, abs=0.005)
    free = estimate_table([one], 0, 0, 5_000)
    assert len(free.columns) == 7 and "No prices" in free.notes[1] and len(free.notes) == 2
    short = estimate_table([one], 0, 0, 10)
    assert "max_tokens=10" in short.notes[1] and short.rows[0][5] == short.rows[0][6] == 40


def made_record(stage, index, accepted, repairs, continuations, calls):
    """Of one item; each reply takes 100 and 7 tokens and costs a quarter. Not accepted and None: it failed."""
    episode = Episode("kumo_pipeline", "x", "new", stage, index, 0, 1, "f", 9, player="model")
    extra = {"repairs": repairs, "continuations": continuations}
    outcome = None if accepted is None else Outcome(accepted, calls, extra=extra)
    reply = Reply("", prompt_tokens=100, completion_tokens=7, cost=0.25)
    turns = tuple(PlayedTurn(Turn(episode, number, ()), reply) for number in range(calls))
    return Record(episode, outcome, "" if outcome else "PlayerError: gone", turns, 1.0)


@pytest.mark.slow
def test_a_stages_table_adds_up_what_was_accepted_refused_and_failed_and_what_it_took(tmp_path):
    records = [
        made_record("write", 0, True, 1, 2, 3),
        made_record("write", 1, True, 0, 3, 5),
        made_record("write", 2, False, 4, 0, 6),
        made_record("write", 3, None, 0, 0, 2),
        made_record("check", 0, False, 0, 1, 1),
    ]
    waiting = [made_record("check", index, True, 0, 0, 0).episode for index in (1, 2)]
    plan = plan_to_table([*(record.episode for record in records), *waiting])
    ledger = records_to_table(records, ledger_columns(KumoPipeline(str(tmp_path))))
    table = tables.stage_table("kumo_stage", RunData.of_tables(plan, ledger).of("kumo_pipeline"))
    columns = "stage planned accepted refused failed calls continued,sent back,prompt tokens,completion tokens,cost"
    assert table.columns == (*columns.split(",")[0].split(), *columns.split(",")[1:]) and table.name == "kumo_stage"
    assert table.rows == (
        ("write", 4, 2, 1, 1, 16, 5, 5, 1600, 112, Decimal("4.0000")),
        ("check", 3, 0, 1, 0, 1, 1, 0, 100, 7, Decimal("0.2500")),
    )
    assert tables.joined([table, dataclasses.replace(table, rows=table.rows[1:])]).rows == (*table.rows, table.rows[1])


# --- the folder ------------------------------------------------------------------------------------------------------


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
    assert (folder.round("check"), folder.round("revise")) == (3, 2)


@pytest.mark.slow
def test_a_file_may_hold_any_number_of_proposals(tmp_path):
    names = draw_names(250, "words", random.Random(1))
    proposals = [Proposal.read(proposal(name), "biology") for name in names]
    assert Folder(tmp_path).add("proposals.yaml", proposals_text(proposals))
    assert Folder(tmp_path).proposals() == proposals and Folder(tmp_path).holdings().startswith("250 proposals")
    kept = [each for each, reason in choose(proposals, []) if not reason]
    assert 50 < len(kept) < 250 and not [each for each, reason in choose(kept, []) if reason]


def test_a_damaged_file_of_proposals_is_named(tmp_path):
    (tmp_path / "proposals.yaml").write_text("- !!python/object/apply:os.system ['true']")
    with pytest.raises(ValueError, match=r"proposals\.yaml"):
        Folder(tmp_path).proposals()
    (tmp_path / "proposals.yaml").write_text(
        yaml.safe_dump([{**dataclasses.asdict(KITES), "truths": ["a"], "actions": ["b"]}])
    )
    assert Folder(tmp_path).proposals()[0].name == "kites"


def test_an_action_lengthens_the_reply_with_a_domain_more_than_a_truth_does():
    base, truths, actions = (
        sample_items("configure", "easy", *size)[0].completion_tokens for size in ((4, 4), (8, 4), (4, 8))
    )
    assert base < truths < actions
