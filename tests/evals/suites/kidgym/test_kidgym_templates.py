"""The words of KidGym's prompts, and a user's own."""

import asyncio
import pickle

import pytest

from envs.kidgym import Frame
from evals.players import OraclePlayer
from evals.suite import play_episode
from evals.suites.kidgym import KidGymSuite
from evals.suites.kidgym.templates import load_templates
from tests.evals.suites.kidgym.test_kidgym_words import PRINTED


@pytest.fixture
def folder(tmp_path):
    """A user's folder of templates, filled by ``write(name, text)``."""

    def write(name, text):
        (tmp_path / f"{name}.txt").write_text(text)
        return str(tmp_path)

    return write


def first_chat(suite):
    record = asyncio.run(play_episode(suite, suite.plan()[0], OraclePlayer()))
    return record.turns[0].turn.chat


def test_a_users_templates_replace_those_of_the_same_name(folder):
    folder("step", "Do this: $goal\n$frame\nIt costs $$5 at step ${step} of $budget.\n$actions\n$answer")
    suite = KidGymSuite(
        tasks=["CL"], levels=[1], modes=["zero_shot"], episodes=1, templates=folder("answer", "One of $letters?")
    )
    system, user = first_chat(suite)
    before, frame, after = user.parts
    assert system.parts == first_chat(KidGymSuite(tasks=["CL"], levels=[1], modes=["zero_shot"], episodes=1))[0].parts
    assert before.startswith("Do this: Put every ") and isinstance(frame, Frame)
    assert after.startswith("\nIt costs $5 at step 1 of 4.\nA) pick up") and after.endswith("One of A, B?")


def test_an_answer_template_may_leave_the_letters_out_as_the_papers_does(folder):
    path = folder("answer", "Reply with a letter of your choice.")
    suite = KidGymSuite(tasks=["CL"], levels=[1], modes=["zero_shot"], episodes=1, templates=path)
    assert first_chat(suite)[1].parts[-1].endswith("Reply with a letter of your choice.")


def test_a_planned_suite_carries_its_words_along(folder):
    """A file that changes during the run must not change what runners in other processes ask."""
    templates = folder("view", "These words.")
    suite = KidGymSuite(tasks=["CL"], levels=[1], modes=["zero_shot"], episodes=1, templates=templates)
    suite.plan()
    sent = pickle.dumps(suite)
    folder("view", "Those words.")
    load_templates.cache_clear()
    assert first_chat(pickle.loads(sent))[0].parts[0].endswith("These words.")


def test_past_answers_are_written_in_the_users_form(folder):
    suite = KidGymSuite(
        tasks=["SE"], levels=[3], modes=["zero_shot"], episodes=1, templates=folder("answered", "I took $letter.")
    )
    record = asyncio.run(play_episode(suite, suite.plan()[0], OraclePlayer()))
    said = [message.parts[0] for message in record.turns[-1].turn.chat if message.role == "assistant"]
    assert said == [f"I took {played.reply.text}." for played in record.turns[:-1]]


@pytest.mark.parametrize(
    ("task", "mode", "seen", "asked"),
    [
        ("CL", "zero_shot", "One picture.", "A letter, please."),
        ("SE", "cot", "All pictures.", "Think.\n\nThen a letter."),
        ("CL", "icl", "One picture.", "A letter, please."),
    ],
)
def test_a_whole_prompt_is_taken_as_the_paper_prints_it(folder, task, mode, seen, asked):
    load_templates.cache_clear()
    path = folder("printed", PRINTED)
    suite = KidGymSuite(tasks=[task], levels=[1], modes=[mode], episodes=1, templates=path)
    system, user = first_chat(suite)
    assert system.parts == (f"Rules: collect and save $5.\n\n{seen}",)
    *before, last = (part for part in user.parts if isinstance(part, str))
    assert before[-1].rstrip().endswith("Go!") and ".." not in before[-1]
    assert last.lstrip().startswith("Choose from: A) ") and last.endswith(f"\n\n{asked}")
    assert user.parts[0].startswith("Look at this first." if mode == "icl" else "Reach this:") or task == "SE"
