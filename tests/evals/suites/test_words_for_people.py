"""What people read in place of a model's prompt: the same games, without tags, forms of answers and requests for reasons."""

import re

import pytest

from envs.picture import Picture
from evals.human.player import Questions, chosen
from evals.sessions.session import Session
from evals.suite import unassigned_games, words_for_people
from evals.suites.kidgym import KidGymSuite
from evals.suites.kumo import KumoSuite
from evals.suites.kumo.likely import KumoLikelySuite
from evals.suites.multistar import MultiStarSuite
from tests.golden import check_golden, digest

SUITES = {
    "kidgym": KidGymSuite(tasks=("CL", "MMA"), levels=(1,), modes=("zero_shot", "cot"), episodes=1),
    "kumo": KumoSuite(domains=("medical",), difficulties=("easy",), tasks_per_domain=1, repeats=1),
    "kumo without a limit": KumoSuite(
        domains=("medical",), difficulties=("easy",), tasks_per_domain=1, repeats=1, tell_budget=False
    ),
    "kumo likely": KumoLikelySuite(domains=("medical",), difficulties=("easy",), tasks_per_domain=1, repeats=1),
    "multistar": MultiStarSuite(subtask="direct", configurations=("center_single",), puzzles=1, reply="text"),
    "multistar labels": MultiStarSuite(
        subtask="direct", configurations=("distribute_four",), puzzles=1, styles=("structured",)
    ),
}
FOR_MODELS = re.compile(r"<answer>|</|<think>|[Ee]xplain|[Rr]eply|cannot be read", re.ASCII)


@pytest.mark.parametrize("name", SUITES)
async def test_people_read_no_form_of_an_answer_and_all_else(name):
    suite, parts = SUITES[name], []
    for episode in unassigned_games(suite):
        session, questions = Session(suite, episode), Questions(lambda turn: words_for_people(suite, turn))
        turn = await session.begin()
        while turn is not None and turn.number < 3:
            words = suite.for_people(turn)
            assert [each.role for each in words] == [each.role for each in turn.chat]
            for ours, theirs in zip(words, turn.chat, strict=True):
                assert [part for part in ours.parts if isinstance(part, Picture)] == [
                    part for part in theirs.parts if isinstance(part, Picture)
                ]
            text = "\n".join(part for each in words for part in each.parts if isinstance(part, str))
            found = FOR_MODELS.search(re.sub(r"</?(?:p|div|h1|h2|ul|li)>", "", text))
            assert not found, text[max(0, found.start() - 60) : found.end() + 60]
            question = questions.of(turn)
            shown = text if turn.number == 0 else digest(text)
            parts.append(f"# {episode.task} {episode.level} {episode.mode} {turn.number}: {question.captions}\n{shown}")
            assert not question.for_models and len(question.captions) == len(turn.options or turn.labels)
            turn = await session.answer(chosen(turn, question.options[-1], 1.0))
        await session.close()
    check_golden(f"people_{name.replace(' ', '_')}", "\n\n".join(parts))
