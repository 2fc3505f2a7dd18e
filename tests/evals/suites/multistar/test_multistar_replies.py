"""Written replies to MultiStAR's questions: read as meant, or not at all."""

import pytest

from evals.suites.multistar.read_answer import read_answer


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("<answer>B</answer> and more", 1),
        ("\\boxed{B} follows from", 1),
        ("Answer: B\n\nSince the left", 1),
        ("The answer is B", None),
        ("Answer: B", None),  # what follows might have been "B or C"
        ("<answer>B", None),
        ("I choose B. Hmm wait, is", None),
    ],
)
def test_of_a_reply_that_was_cut_off_only_a_complete_answer_is_read(text, option):
    options = ("more objects", "fewer objects", "the same number of objects")
    assert read_answer(text, "ABC", options, cut_off=True).option == option


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("B", 1),
        ("(b).", 1),
        ("**C**", 2),
        ("B: fewer objects", 1),
        ("More objects.", 0),
        ("The left one has 3, so the answer is C.", 2),
        ("Answer: A\nNo, answer: B", 1),
        (r"\boxed{A}", 0),
        ("A: more objects\nB: fewer objects", None),
        ("A square is on the left.", None),
        ("Answer: a square", None),
        ("It is A or B", None),
        ("", None),
        # Options that are only talked about.
        ("Option A: more.\nOption B: fewer.\nOption C: as many.\nI cannot decide.", None),
        ("Looking at choice B, it is wrong, so it must be C", 2),
        ("Looking at answer B, I doubt it.", None),
        ("The answer options: A, B and C", None),
        ("A - but wait, B is better", 1),
        ("A-shaped", None),
        ("A: more objects. B: fewer objects. C: as many.", None),
        ("A. The left panel first.\nIt has three objects.", None),
        ("A: more or less, B) is what fits", 1),
        # Answers.
        ("The answer is option B.", 1),
        ("The correct answer is: choice (C)", 2),
        ("Answer: **B**.", 1),
        ("**Answer:** B", 1),
        ("**Answer**: B", 1),
        ("### Final answer\n\nB", 1),
        ("Answer:\nB. fewer objects", 1),
        ("The correct answer would be B since", 1),
        ("B. fewer objects\n\nThe left one has two, the right one three. That rules out A.", 1),
        ("B: since there are two on the left", 1),
        ("A. more objects. However, the answer is B.", 1),
    ],
)
def test_written_answers_are_read_as_meant_or_not_at_all(text, option):
    assert read_answer(text, "ABC", ("more objects", "fewer objects", "as many objects")).option == option


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("5.", 4),
        ("Panel 5", 4),
        ("The answer is panel 5.", 4),
        ("Answer: panel 5", 4),
        ("The answer is number 5", 4),
        (r"$\boxed{5}$", 4),
        ("1. Rows: they grow.\n2. Columns: they grow.\nAnswer: 5", 4),
        ("1. Look at the first row: the number of objects grows by one.\nSo", None),
        ("1) In the first row there are 3 triangles", None),
        ("What the answer is:\n1. Look at the first row.\n2. Look at the next.", None),
        ("**Answer:**\n\n**5**\n", 4),
        ("3 objects", None),
        ("The answer is 12", None),
        ("The answer is 3 or 4", None),
    ],
)
def test_written_numbers_are_answers_only_where_they_are_called_so(text, option):
    labels = tuple("12345678")
    assert read_answer(text, labels, labels).option == option
