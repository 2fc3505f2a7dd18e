"""How a question is asked: in plain words, as HTML, or as a printed page; with or without what earlier answers said.

The picture comes first, so that all questions on it share a prefix. All wording is ours; the three styles are the paper's
(vanilla, structured, document).
"""

from __future__ import annotations

import dataclasses
import html
import re
from collections.abc import Sequence
from string import Template
from typing import Final, Literal

from envs.page import PagePicture, Words
from envs.picture import Picture
from envs.raven import RavenPicture
from envs.raven.twin import LEGEND
from evals.presentation import Presentation, told
from evals.presentation.pictures import NOTES
from evals.suites.multistar.questions import Question
from evals.suites.multistar.questions.words import SETTINGS
from evals.suites.multistar.templates import DESCRIBE, Templates, filled_page, filled_text
from evals.types import Chat, Part, message, reworded, stable_hash

Style = Literal["vanilla", "structured", "document"]
Order = Literal["paper", "question_first"]
"""Whether the earlier answers stand before the question, as in the paper, or after it and its choices."""

SYSTEM = (
    "You answer multiple-choice questions about geometric shapes in square panels. Reply with the label of the one right "
    "choice and nothing else."
)
NOTICE = "The statements below were worked out in earlier steps; any of them may be right or wrong."
ASK_LETTER = "Reply with one letter only: {labels}."
ASK_NUMBER = "Reply with one number only: {labels}."
CHOOSE = "Choose one of these answers:"
PAGE = "This page holds a picture and a question about it. {ask}"
TITLE = "Panels and shapes"
SECTIONS = {"2P": "What was seen", "1R": "What was seen", "2R": "Rules found", "final": "Rules found"}
"""Headings above what earlier answers said, by the stage that is asked."""

DEFAULT = Presentation()
BUILT_IN: Final = Templates()

PROMPT_FINGERPRINT = stable_hash(SYSTEM, NOTICE, ASK_LETTER, ASK_NUMBER, CHOOSE, PAGE, TITLE, SECTIONS, "layout 2")
"""Part of every episode's fingerprint: runs under other words are other runs."""

_FOR_PEOPLE = {SYSTEM[SYSTEM.index("Reply with") :]: "Choose the one that is right."}


def for_people(chat: Chat, labels: Sequence[str]) -> Chat:
    """A question as people read it, who choose from a menu: without the form of a written answer."""
    forms = [form.format(labels=_either(labels)) for form in (ASK_LETTER, ASK_NUMBER)]
    forms.append(Template(DESCRIBE).substitute(labels=", ".join(labels)))
    return reworded(chat, _FOR_PEOPLE | {f"<p>{form}</p>\n": "" for form in forms} | dict.fromkeys(forms, ""))


_SPATIAL = re.compile(
    r"\b(?:(?:top|bottom|upper|lower|middle)[- ](?:left|right|center)|left|middle|right|top|bottom|inner|outer|above|below"
    r"|first|second|third|both)\b"
)


def labels_of(question: Question) -> tuple[str, ...]:
    """What the options of a question are called."""
    return option_labels(question.stage, question.options)


def option_labels(stage: str, options: Sequence[str]) -> tuple[str, ...]:
    """A, B, ..., and 1 to 8 where the options are numbered panels."""
    return tuple(options) if stage == "final" else tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(options)])


def _numbered(question: Question) -> bool:
    return question.stage == "final"


def prompt(
    question: Question,
    priors: Sequence[str],
    style: Style,
    order: Order = "paper",
    presentation: Presentation = DEFAULT,
    templates: Templates = BUILT_IN,
) -> Chat:
    """The chat of one question.

    Args:
        question: What is asked.
        priors: Sentences that earlier answers were made into; empty without prior information.
        style: One of the three.
        order: With ``question_first``, prompts that differ in their earlier answers share all that stands before those.
        presentation: Whether the picture is shown, or told in words.
        templates: A user's own words, which decide the order as well.
    """
    parts: tuple[Part, ...]
    question = _with_own_setting(question, templates)
    own = templates.get(f"{style}_prior" if priors else style)
    values = _values(question, priors, style)
    if style == "document":
        # A page is one picture, of which nothing can be shared.
        page = _page(question, priors)
        if own is not None:
            page = filled_page(own, question.picture, values, page.scale)
        parts = page, _beside_page(question, templates)
    elif own is not None:
        parts = filled_text(own, question.picture, values)
    else:
        written = _structured if style == "structured" else _vanilla
        parts = question.picture, written(question, priors, order)
    system = templates.get("system")
    if system is None:
        system = SYSTEM
    modality = presentation.modality
    if modality != "picture":
        system = f"{system} {NOTES[modality]} {LEGEND}".strip()
        parts = told(_set_off(parts), modality, presentation.detail)
    user = message("user", *parts)
    # A user's empty system.txt: there is no system message.
    return (message("system", system), user) if system else (user,)


def _set_off(parts: Sequence[Part]) -> list[Part]:
    """The parts with blank lines between them, for pictures that are to be told in words."""
    return [each for part in parts for each in ("\n\n", part)][1:]


def _values(question: Question, priors: Sequence[str], style: Style) -> dict[str, str | tuple[str, ...]]:
    """What fills the fields of a user's template; as HTML where the style is."""
    setting, text, choices, told = question.setting, question.text, _listed(question), tuple(priors)
    if style == "structured":
        setting, text = html.escape(setting, quote=False), html.escape(text, quote=False)
        choices = tuple(f"<li>{html.escape(choice, quote=False)}</li>" for choice in choices)
        told = tuple(f"<li>{_marked(sentence)}</li>" for sentence in priors)
    labels = ", ".join(labels_of(question))
    return {"setting": setting, "question": text, "choices": choices, "priors": told, "labels": labels}


def _with_own_setting(question: Question, templates: Templates) -> Question:
    """The question with what the parts of a panel are in a user's words, where there are some."""
    named = {text: f"setting_{structure.lower()}" for structure, text in SETTINGS.items() if text}
    own = templates.get(named.get(question.setting, ""))
    return question if own is None else dataclasses.replace(question, setting=own)


def _listed(question: Question) -> tuple[str, ...]:
    """One entry per option; for numbered panels their numbers."""
    return labels_of(question) if _numbered(question) else tuple(_choices(question))


def _beside_page(question: Question, templates: Templates) -> str:
    """The text that stands beside a page."""
    own = templates.get("page")
    return (
        PAGE.format(ask=_ask(question))
        if own is None
        else Template(own).substitute(labels=", ".join(labels_of(question)))
    )


def _ask(question: Question) -> str:
    form = ASK_NUMBER if _numbered(question) else ASK_LETTER
    return form.format(labels=_either(labels_of(question)))


def _either(labels: Sequence[str]) -> str:
    *others, last = labels
    return f"{', '.join(others)} or {last}"


def _choices(question: Question) -> list[str]:
    """One line per option; numbered panels are in the picture and need none."""
    if _numbered(question):
        return []
    return [f"{label}: {option}" for label, option in zip(labels_of(question), question.options, strict=True)]


def _vanilla(question: Question, priors: Sequence[str], order: Order) -> str:
    told = [f"{NOTICE}\n" + "\n".join(f"- {sentence}" for sentence in priors)] if priors else []
    asked = [question.text, "\n".join(_choices(question))]
    body = [*asked, *told] if order == "question_first" else [*told, *asked]
    blocks = [question.setting, *body, _ask(question)]
    return "\n\n".join(block for block in blocks if block)


def _structured(question: Question, priors: Sequence[str], order: Order) -> str:
    choices = _choices(question)
    asked = ["<div>", "<h2>Question</h2>", f"<p>{html.escape(question.text, quote=False)}</p>"]
    if choices:
        listed = [f"<li>{html.escape(choice, quote=False)}</li>" for choice in choices]
        asked += [f"<p>{CHOOSE}</p>", "<ul>", *listed, "</ul>"]
    ask = [f"<p>{_ask(question)}</p>", "</div>"]
    if not priors:
        return "\n".join([*_headline(question.setting), *asked, *ask])
    sentences = ["<ul>", *(f"<li>{_marked(sentence)}</li>" for sentence in priors), "</ul>", "</div>"]
    section = ["<div>", f"<h2>{SECTIONS[question.stage]}</h2>"]
    if order == "question_first":
        # The notice stands with the answers that it speaks of, and the labels in a block of their own at the end.
        told = [*section, f"<p>{NOTICE}</p>", *sentences]
        return "\n".join([*_headline(question.setting), *asked, "</div>", *told, "<div>", *ask])
    head = f"{question.setting} {NOTICE}" if question.setting else NOTICE
    return "\n".join([*_headline(head), *section, *sentences, *asked, *ask])


def _headline(text: str) -> list[str]:
    return [f"<h1>{html.escape(text, quote=False)}</h1>"] if text else []


def _marked(sentence: str) -> str:
    """The sentence as HTML, its words of place and order in bold."""
    return _SPATIAL.sub(lambda found: f"<strong>{found[0]}</strong>", html.escape(sentence, quote=False))


def _page(question: Question, priors: Sequence[str]) -> PagePicture:
    blocks: list[Words | Picture] = [Words("title", TITLE), question.picture]
    if question.setting:
        blocks.append(Words("text", question.setting))
    if priors:
        blocks += [Words("heading", SECTIONS[question.stage]), Words("text", NOTICE)]
        blocks += [Words("item", sentence) for sentence in priors]
    blocks += [Words("heading", "Question"), Words("text", question.text)]
    blocks += [Words("item", choice) for choice in _choices(question)]
    blocks.append(Words("text", _ask(question)))
    scale = 1
    if isinstance(question.picture, RavenPicture):
        scale = question.picture.scale
    return PagePicture(tuple(blocks), scale)
