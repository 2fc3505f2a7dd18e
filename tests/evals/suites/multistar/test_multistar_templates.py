"""A user's own prompts in the place of MultiStAR's."""

import asyncio
import pickle

import pytest

from envs.page import Words
from envs.raven import RavenPicture, generate
from evals.players import OraclePlayer
from evals.suite import play_episode
from evals.suites.multistar import MultiStarSuite
from evals.suites.multistar.prompts import prompt
from evals.suites.multistar.questions import chain_questions
from evals.suites.multistar.templates import load_templates
from tests.golden import check_golden

ASKED = "Question: [question] Select one: [choices]. The answer should be one of A, B, C, D."
"""In the form of the paper's prompt, with its placeholders."""
TWO_PARTS = "left_center_single_right_center_single"


@pytest.fixture
def folder(tmp_path):
    """A user's folder of templates, filled by ``write(name=text)``."""

    def write(**texts):
        load_templates.cache_clear()
        for name, text in texts.items():
            (tmp_path / f"{name}.txt").write_text(text)
        return str(tmp_path)

    return write


def chats(templates, **settings):
    """The chats of one chain, by the node that they ask for."""
    chosen = {"configurations": [TWO_PARTS], "puzzles": 1, "priors": ["none"], "sweep": False} | settings
    suite = MultiStarSuite(templates=templates, **chosen)
    (episode,) = suite.plan()
    record = asyncio.run(play_episode(suite, episode, OraclePlayer()))
    return {node[0]: record.turns[node[8]].turn.chat for node in record.outcome.extra["nodes"]}


def test_the_papers_placeholders_are_filled(folder):
    told = chats(
        folder(
            system="",
            vanilla=f"[Extra Setting Info] {ASKED}",
            vanilla_prior=f"[Extra Setting Info] It costs $$5: [[Prior Info 1], [Prior Info 2], ...] {ASKED}",
        ),
        priors=["truth"],
    )
    (user,) = told["number/single_panel_1_left"]
    picture, text = user.parts
    assert isinstance(picture, RavenPicture) and text.startswith("A vertical line divides every panel")
    assert text.count("Question: ") == 1 and "Select one: A: " in text and ", D: " in text
    assert text.endswith("The answer should be one of A, B, C, D.")
    after_others = told["number/two_panels_1_2_left"][0].parts[1]
    assert "It costs $5: [There is 1 object in the left part of the left panel. There is 1" in after_others
    assert (
        told["final"][0]
        .parts[1]
        .endswith("Select one: 1, 2, 3, 4, 5, 6, 7, 8. The answer should be one of 1, 2, 3, 4, 5, 6, 7, 8.")
    )


def test_without_setting_nothing_is_left_of_its_field_and_own_settings_stand_in_its_place(folder):
    templates = folder(vanilla=f"$setting\n\n{ASKED}", setting_left_right="Two halves.")
    parts = chats(templates, configurations=["center_single"])["number/single_panel_1"][1].parts
    assert parts[1].startswith("Question: ")
    assert chats(templates)["final"][1].parts[1].startswith("Two halves.\n\nQuestion: ")


def test_lists_with_a_line_for_themselves_have_a_line_for_each_entry(folder):
    templates = folder(structured="<h1>$question</h1>\n$picture\n<ul>\n  ${choices}\n</ul>")
    system, user = chats(templates, styles=["structured"])["color/one_row_right"]
    assert system.parts[0].startswith("You answer") and isinstance(user.parts[1], RavenPicture)
    assert user.parts[2].count("\n  <li>") == 4


def test_a_page_of_ones_own_is_printed_line_by_line(folder):
    templates = folder(
        document="# Puzzle\n$setting\n  $picture \n$question\n## Choose\n- $choices\nOne of $labels.",
        page="See the page: $labels.",
    )
    page, text = chats(templates, styles=["document"])["final"][1].parts
    assert text == "See the page: 1, 2, 3, 4, 5, 6, 7, 8."
    kinds = [block.kind for block in page.blocks if isinstance(block, Words | RavenPicture)]
    assert kinds == ["title", "text", "raven", "text", "heading", *["item"] * 8, "text"]


def test_pictures_told_in_words_stand_where_a_template_puts_them(folder):
    templates = folder(vanilla=f"Look: $picture\n{ASKED}")
    text = chats(templates, modality="text")["number/single_panel_1_left"][1].parts[0]
    assert text.startswith("Look:\n\n<picture>\n") and "</picture>\n\nQuestion: " in text


def test_templates_are_part_of_the_id_and_travel_with_the_plan(folder):
    settings = {"configurations": ["center_single"], "puzzles": 1, "priors": ["none"]}
    plain = MultiStarSuite(**settings).plan()[0].id
    one = MultiStarSuite(templates=folder(vanilla=ASKED), **settings)
    before = one.plan()[0].id
    sent = pickle.dumps(one)
    assert before != plain
    assert MultiStarSuite(templates=folder(vanilla=f"Well. {ASKED}"), **settings).plan()[0].id != before
    assert pickle.loads(sent).plan()[0].id == before


PRIORS = "[[Prior Info 1], [Prior Info 2], ...]"
OWN = [
    {"vanilla": ASKED, "vanilla_prior": "- $priors\n[question]\n  - ${choices}\n$picture\nLast: [choices]; one of A, B, C, D"},
    {"vanilla_prior": f"$setting\n\n \n\n$picture\n\n\n$question $choices {PRIORS} $$1", "system": "Be brief."},
    {"structured": "<h1>$setting</h1>\n<ul>\n\t$choices\n</ul>\n$question", "setting_left_right": "Two & 2.", "system": " \n"},
    {"structured_prior": "<p>${priors}</p>\n- ${priors}\n$question $choices $labels"},
    {"document": "$question\n## H $labels\n-- $choices\n- $choices\n#no title", "page": "$labels!", "setting_up_down": "No."},
    {"document_prior": "# T\n ${picture}\n- $priors\n\n$question: ${choices}$setting", "page": "Look."},
    {"document": " $picture \n$question $choices $picture2"},
    {"document": "$picture\n$question\n$choices\n  $picture", "setting_out_in": "$x"},
    *({"vanilla": text} for text in ("[question]", "", f"{ASKED} $priors", f"{ASKED} $")),
    *({"document": text} for text in (f"See $picture\n{ASKED}", f"{ASKED}\n\u00d7")),
    *({"page": text} for text in ("", "$labels $question")),
    {"document_prior": f"{ASKED} $priors\n$picture."},
    *({"vanila": ASKED}, {"structured_prior": ASKED}, {"system": "$labels"}, {"setting_out_in": " "}),
]  # fmt: skip
"""Files of a user's folder."""


def shown(part):
    if isinstance(part, str):
        return repr(part)
    kinds = [
        f"{one.kind} {one.text!r}" if isinstance(one, Words) else "<picture>" for one in getattr(part, "blocks", ())
    ]
    return f"<page x{part.scale}: {'; '.join(kinds)}>" if kinds else "<picture>"


def test_templates_of_one_s_own_are_filled_or_refused_as_on_record(tmp_path):
    nodes = {question.node: question for question in chain_questions(generate(TWO_PARTS, 1), 0)}
    asked = [(nodes["number/single_panel_1_left"], ()), (nodes["color/one_row_right"], ("Left & first.", "Costs $5."))]
    asked += [(nodes["final"], ()), (nodes["final"], ("One rule.",))]
    parts = []
    for number, texts in enumerate(OWN):
        home = tmp_path / str(number)
        home.mkdir()
        for name, text in texts.items():
            (home / f"{name}.txt").write_text(text)
        parts.append(f"# {texts}")
        try:
            own = load_templates(str(home))
        except ValueError as error:
            parts.append(str(error).replace(str(home), ""))
            continue
        style = next(iter(texts)).partition("_")[0]
        parts.append(str(own.identity != load_templates("").identity))
        for question, priors in asked:
            parts += [
                f"{one.role}: {' '.join(map(shown, one.parts))}"
                for one in prompt(question, priors, style, templates=own)
            ]
    check_golden("multistar_own_templates", "\n".join(parts))


def test_a_folder_must_be_there_and_hold_templates(tmp_path):
    with pytest.raises(ValueError, match="is not a folder"):
        chats(str(tmp_path / "none"))
    with pytest.raises(ValueError, match=r"holds no template; it may have system\.txt"):
        chats(str(tmp_path))


def test_an_order_beside_templates_is_refused(folder):
    with pytest.raises(ValueError, match=r"suite\.order has no meaning with suite\.templates"):
        chats(folder(vanilla=ASKED), order="question_first")


@pytest.mark.parametrize("style", ["vanilla", "structured", "document"])
def test_what_is_seen_is_asked_for_in_every_style_unless_a_file_of_ones_own_stands_there(folder, style):
    asked = chats("", styles=[style], reply="described", priors=["truth"])
    for node in ("number/single_panel_1_left", "number/one_row_left", "final"):
        (_, user) = asked[node]
        words = [block.text for block in getattr(user.parts[0], "blocks", ()) if isinstance(block, Words)]
        said = " ".join((*words, *(part for part in user.parts if isinstance(part, str))))
        assert "First say in a sentence or two" in said and "letter only" not in said and "${" not in said
        assert ("There is 1 object" in said.replace("<strong>", "")) == (node == "number/one_row_left")
    own = chats(folder(vanilla=ASKED), styles=["vanilla"], reply="described")["final"]
    assert "First say" not in own[1].parts[1] and "nothing else" not in own[0].parts[0]
