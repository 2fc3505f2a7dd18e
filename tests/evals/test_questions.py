"""Suites that ask the questions of a data set."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from evals.suite import play_episode
from raycade.suite import Count, Question, QuestionSuite, Reply
from raycade.testing import check_suite

SUMS = "What is {} plus {}?"


@dataclass(frozen=True)
class Sums(QuestionSuite):
    """Adds numbers."""

    name: ClassVar[str] = "sums"
    highest: Count = 3

    def questions(self) -> Iterable[Question]:
        for first in range(1, self.highest + 1):
            for second in range(1, self.highest + 1):
                yield Question(SUMS.format(first, second), str(first + second), level=str(first))


@dataclass(frozen=True)
class Saying:
    text: str

    async def reply(self, turn):
        return Reply(self.text)


@pytest.mark.slow
def test_a_data_set_is_a_suite_that_keeps_the_contract():
    check_suite(Sums())
    assert [(episode.index, episode.level) for episode in Sums(highest=2).plan()] == [
        (0, "1"),
        (1, "1"),
        (2, "2"),
        (3, "2"),
    ]


@pytest.mark.parametrize(
    ("reply", "right"), [("2", True), (" 2.\n", True), ("**2**", True), ("3", False), ("12", False)]
)
def test_a_reply_is_right_but_for_case_space_and_punctuation(reply, right):
    suite = Sums(highest=1)
    record = asyncio.run(play_episode(suite, suite.plan()[0], Saying(reply)))
    assert record.outcome.success == right and record.turns[0].action == reply.strip()


@pytest.mark.parametrize(
    ("answer", "right", "wrong"),
    [
        ("-5", ("-5", "**-5**", "-5.\n"), ("5", "- 5", "--5", "")),
        ("5", ("5.", "...5", "(5)", "- 5", "#5", "5%"), ("-5", ".5", "-.5", "5+")),
        (".5", (".5.", "$.5$"), ("5", "-.5", "..5")),
        ("-.5", ("-.5", "`-.5`"), (".5", "-5")),
        ("C#", ("c#", "**C#**", "C#."), ("C", "C++", "#C")),
        ("A", ("a", "-A", "(A)", ".A", "# A #"), ("A-", "A+")),
        ("<", ("<", " <\n"), (">", "", "<<")),
    ],
)
def test_signs_make_another_answer_and_other_punctuation_does_not(answer, right, wrong):
    suite, question = Sums(), Question("?", answer)
    assert [reply for reply in right if not suite.match(question, reply)] == []
    assert [reply for reply in wrong if suite.match(question, reply)] == []


def test_another_question_is_another_episode_and_a_longer_data_set_keeps_the_ids():
    short, long = ({episode.id for episode in Sums(highest=highest).plan() if episode.index == 0} for highest in (1, 3))
    assert short == long


def test_whatever_a_question_says_or_accepts_is_part_of_its_episode_s_identity():
    @dataclass(frozen=True)
    class One(QuestionSuite):
        name: ClassVar[str] = "one"
        question: Question

        def questions(self) -> Iterable[Question]:
            return [self.question]

    changes = [{}, {"prompt": "q"}, {"answer": "b"}, {"task": "t"}, {"level": "2"}]
    changes += [{"options": options} for options in (("a",), ("a", "b"), ("b", "a"))]
    ids = {One(Question(**{"prompt": "p", "answer": "a"} | change)).plan()[0].id for change in changes}
    assert len(ids) == len(changes)


@pytest.mark.slow
def test_type_checkers_see_the_public_names_as_they_are(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from raycade.engine import Engine\nfrom raycade.suite import Conversation, Episode, Outcome, Suite\n\n\n"
        "class Mine(Suite):\n    name = 'mine'\n\n    def plan(self) -> list[Episode]:\n        return []\n\n"
        "    async def play(self, episode: Episode, conversation: Conversation) -> Outcome:\n"
        "        return Outcome(success='yes', steps=1)\n\n\nreveal_type(Engine.max_num_seqs)\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "mine.py"]
    # A wheel brings raycade.pth for type checkers; an editable checkout is found through MYPYPATH.
    environment = os.environ | {"MYPYPATH": str(Path(__file__).parents[2])}
    said = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True).stdout
    assert 'incompatible type "str"; expected "bool"' in said and 'has type "Any"' not in said
    assert "Found 1 error" in said, said
