"""How MultiStAR's questions are put: the three styles, labels, and what prompts share."""

import itertools
import re

import numpy as np
import pytest

from envs.page import PagePicture, Words
from envs.picture import picture_from_description
from envs.raven import generate
from evals.presentation import Presentation
from evals.suites.multistar.prompts import NOTICE, SECTIONS, for_people, labels_of, prompt
from evals.suites.multistar.questions import chain_questions, direct_questions
from evals.suites.multistar.templates import load_templates
from tests.golden import check_golden, digest

STYLES = ("vanilla", "structured", "document")
CENTER = chain_questions(generate("center_single", 4), 0)
PARTS = chain_questions(generate("in_distribute_four_out_center_single", 4), 0)
PRIORS = [
    "There are 3 objects in the left panel.",
    "There are 2 objects in the inner part of the middle panel & <more>.",
]


def question(node, questions=CENTER):
    return next(question for question in questions if question.node == node)


def words_of(chat):
    """All that the chat says, whether as text or printed on a page."""
    said = []
    for message in chat:
        for part in message.parts:
            if isinstance(part, str):
                said.append(part)
            elif isinstance(part, PagePicture):
                said += [block.text for block in part.blocks if isinstance(block, Words)]
    return "\n".join(said)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("questions", [CENTER, PARTS, direct_questions(generate("distribute_nine", 1), 0)])
def test_every_style_says_the_question_its_options_and_no_label_beyond_them(style, questions):
    for asked in questions:
        said = words_of(prompt(asked, (), style)).replace("&amp;", "&")
        assert asked.text in said and asked.setting in said
        labels = labels_of(asked)
        assert f"{', '.join(labels[:-1])} or {labels[-1]}." in said
        if asked.stage != "final":
            assert labels == tuple("ABCD"[: len(asked.options)])
            assert all(f"{label}: {option}" in said for label, option in zip(labels, asked.options, strict=True))
            assert f"{'ABCDE'[len(labels)]}: " not in said
        assert NOTICE not in said


@pytest.mark.parametrize("style", STYLES)
def test_prior_sentences_are_told_with_the_notice_that_they_may_be_wrong(style):
    asked = question("number/one_row")
    said = words_of(prompt(asked, PRIORS, style))
    assert NOTICE in said
    plain = re.sub(r"</?strong>", "", said).replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">")
    assert all(sentence in plain for sentence in PRIORS)


@pytest.mark.parametrize("style", ["vanilla", "structured"])
def test_questions_on_one_picture_share_everything_up_to_it(style):
    for node in ("number/one_row", "shape/one_row"):
        system, user = prompt(question(node), PRIORS, style)
        assert user.parts[0] == question("color/one_row").picture
        assert system == prompt(question("final"), (), style)[0]
        assert isinstance(user.parts[1], str)


def test_html_marks_words_of_place_and_escapes_the_rest():
    text = prompt(question("number/one_row"), PRIORS, "structured")[1].parts[1]
    assert "<li>There are 3 objects in the <strong>left</strong> panel.</li>" in text
    assert "<strong>inner</strong> part of the <strong>middle</strong> panel &amp; &lt;more&gt;." in text
    assert f"<h2>{SECTIONS['1R']}</h2>" in text
    for tag in ("h1", "div", "h2", "ul", "li", "p", "strong"):
        assert text.count(f"<{tag}>") == text.count(f"</{tag}>") > 0


def test_a_document_is_one_picture_that_holds_the_puzzle_and_all_words():
    asked = question("final", PARTS)
    _, user = prompt(asked, PRIORS[:1], "document")
    page, ask = user.parts
    assert isinstance(page, PagePicture) and asked.picture in page.blocks
    assert asked.text not in ask and "1, 2, 3, 4, 5, 6, 7 or 8" in ask
    assert page != prompt(asked, ["There are 4 objects in the left panel."], "document")[1].parts[0]
    pixels = page.render()
    assert pixels.shape == (page.size[1], page.size[0], 3)
    figure = asked.picture.render()
    left = (page.size[0] - figure.shape[1]) // 2
    rows = [top for top in range(0, 300) if np.array_equal(pixels[top, left : left + figure.shape[1]], figure[0])]
    assert any(np.array_equal(pixels[top : top + len(figure), left : left + figure.shape[1]], figure) for top in rows)


def test_a_page_travels_as_a_description_and_comes_back_with_the_same_pixels():
    page = prompt(question("size/two_rows"), PRIORS, "document")[1].parts[0]
    again = picture_from_description(page.description)
    assert again == page and again.key == page.key
    assert np.array_equal(again.render(), page.render())
    assert len(page.description) < 2500


def test_a_page_sets_every_word_within_its_margins():
    text = "word " * 60
    page = PagePicture((Words("title", "Title"), Words("text", text), Words("item", text), Words("heading", "End")))
    pixels = page.render()
    ink = np.argwhere(pixels[:, :, 0] < 255)
    assert ink[:, 1].min() >= 60 and ink[:, 1].max() < 900
    assert ink[:, 0].max() < page.size[1] - 50
    lines = np.flatnonzero(np.diff((pixels.min(axis=(1, 2)) < 255).astype(int)) == 1)
    assert len(lines) >= 12, "long text is wrapped"


def test_what_a_page_cannot_print_is_refused():
    with pytest.raises(ValueError, match="printable ASCII only, not '×'"):
        Words("text", "5 × 5")
    wide = PagePicture((PagePicture((Words("text", "a"),)),))
    assert wide.render().shape[1] == 960, "a figure as wide as the page still fits"


@pytest.mark.parametrize("style", ["vanilla", "structured"])
def test_question_first_puts_the_earlier_answers_after_the_choices(style):
    asked = question("number/one_row")
    texts = [prompt(asked, [sentence], style, "question_first")[1].parts[1] for sentence in ("It is so.", "It is not.")]
    shared = next(place for place, (one, other) in enumerate(zip(*texts, strict=False)) if one != other)
    for text, sentence in zip(texts, ("It is so.", "It is not."), strict=True):
        assert text.index(asked.text) < text.index(asked.options[-1]) < text.index(NOTICE) < text.index(sentence)
        assert text.count(NOTICE) == text.count(sentence) == 1
    assert all(option in texts[0][:shared] for option in asked.options)
    paper = prompt(asked, ["It is so."], style)[1].parts[1]
    assert paper.index("It is so.") < paper.index(asked.text)
    assert sorted(re.findall(r"\w+", paper)) == sorted(re.findall(r"\w+", texts[0])) or style == "structured"
    assert prompt(asked, [], style) == prompt(asked, [], style, "question_first")


def test_prompts_are_as_on_record():
    """In every style, order and way of showing the picture, alone and told of earlier answers; and as people read them."""
    parts = ["# Question, style: digests of all its prompts, and of those for people"]
    nodes = (("number/one_row", CENTER), ("size/two_panels_1_2_in", PARTS), ("final", PARTS))
    ways = [Presentation(modality=modality, detail="prose") for modality in ("picture", "text", "both")]
    templates = [load_templates("", described=described) for described in (False, True)]
    for (node, questions), style in itertools.product(nodes, STYLES):
        asked = question(node, questions)
        every = itertools.product(((), PRIORS), ("paper", "question_first"), ways, templates)
        chats = [prompt(asked, priors, style, *others) for priors, *others in every]
        people = [for_people(chat, labels_of(asked)) for chat in chats]
        parts.append(f"{node} {style} {digest(repr(chats))} {digest(repr(people))}")
        if node != "final":
            told = prompt(asked, PRIORS, style, "question_first", ways[1], templates[style == "structured"])
            parts += [part for said in told for part in said.parts]
            parts += ["", "for people:", *for_people(told, labels_of(asked))[-1].parts, ""]
    check_golden("multistar_prompts", "\n".join(parts))
