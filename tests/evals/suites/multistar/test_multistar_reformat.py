"""Prior answers as sentences: panels called by where they stand in the picture asked about, answers said."""

from functools import cache

import pytest

from envs.raven import CONFIGURATIONS, generate
from evals.suites.multistar.questions import chain_questions
from evals.suites.multistar.reformat import prior_sentence
from tests.golden import check_golden


@cache
def chain(name, seed=0):
    return {question.node: question for question in chain_questions(generate(name, seed), seed)}


def pairs(questions):
    return [(questions[parent], question) for question in questions.values() for parent in question.parents]


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_every_answer_is_told_apart(name):
    for seed in range(5):
        for parent, target in pairs(chain(name, seed)):
            sentences = [prior_sentence(parent, option, target) for option in range(len(parent.options))]
            assert len(set(sentences)) == len(sentences)
            assert all(sentence[0].isupper() and sentence.endswith(".") for sentence in sentences)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_question_is_told_of_every_parent_in_other_words(name):
    questions = chain(name, 1)
    for question in questions.values():
        told = [prior_sentence(questions[parent], 0, question) for parent in question.parents]
        assert len(set(told)) == len(told)


def test_sentences_are_those_on_record():
    """In our words, and where they differ in those of Table 10; of panels with parts, the first option of each."""
    parts = ["# Told of a question's answer, to a question that builds on it: our words | the paper's"]
    for name, most in (("distribute_four", 8), ("in_distribute_four_out_center_single", 1)):
        for parent, target in pairs(chain(name, 3)):
            parts += ["", f"# {name}: {parent.node} for {target.node}"]
            for option in range(min(most, len(parent.options))):
                ours, paper = (prior_sentence(parent, option, target, paper_literal=way) for way in (False, True))
                parts.append(ours if ours == paper else f"{ours} | {paper}")
    check_golden("multistar_sentences", "\n".join(parts))


# --- what cannot be told ---------------------------------------------------------------------------------------------


def test_what_is_no_parent_is_refused_by_name():
    questions = chain("center_single", 0)
    with pytest.raises(ValueError, match=r"shape/one_row is no parent of number/two_rows.*number/one_row"):
        prior_sentence(questions["shape/one_row"], 0, questions["number/two_rows"])


def test_an_option_that_was_not_offered_is_refused():
    questions = chain("center_single", 0)
    for option in (4, -1):
        with pytest.raises(IndexError, match="number/one_row has options 0 to 3"):
            prior_sentence(questions["number/one_row"], option, questions["number/two_rows"])
