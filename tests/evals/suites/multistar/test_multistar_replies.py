"""Written replies to MultiStAR's questions: read as meant, or not at all."""

from evals.suites.multistar.read_answer import READERS
from tests.golden import check_golden

CUT_OFF = [
    "<answer>B</answer> and more",
    "\\boxed{B} follows from",
    "Answer: B\n\nSince the left",
    "The answer is B",
    "Answer: B",
    "<answer>B",
    "I choose B. Hmm wait, is",
]
LETTERS = [
    "B",
    "(b).",
    "**C**",
    "B: fewer objects",
    "More objects.",
    "The left one has fewer objects.",
    "I see that the left panel has fewer objects than the right one.",
    "The left one has 3, so the answer is C.",
    "Answer: A\nNo, answer: B",
    r"\boxed{A}",
    "A: more objects\nB: fewer objects",
    "A square is on the left.",
    "Answer: a square",
    "It is A or B",
    "",
    # Options that are only talked about.
    "Option A: more.\nOption B: fewer.\nOption C: as many.\nI cannot decide.",
    "Looking at choice B, it is wrong, so it must be C",
    "Looking at answer B, I doubt it.",
    "The answer options: A, B and C",
    "A - but wait, B is better",
    "A-shaped",
    "A: more objects. B: fewer objects. C: as many.",
    "A. The left panel first.\nIt has three objects.",
    "A: more or less, B) is what fits",
    # Answers.
    "The answer is option B.",
    "The correct answer is: choice (C)",
    "Answer: **B**.",
    "**Answer:** B",
    "**Answer**: B",
    "### Final answer\n\nB",
    "Answer:\nB. fewer objects",
    "The correct answer would be B since",
    "B. fewer objects\n\nThe left one has two, the right one three. That rules out A.",
    "B: since there are two on the left",
    "A. more objects. However, the answer is B.",
]
NUMBERS = [
    "5.",
    "Panel 5",
    "The answer is panel 5.",
    "Answer: panel 5",
    "The answer is number 5",
    r"$\boxed{5}$",
    "1. Rows: they grow.\n2. Columns: they grow.\nAnswer: 5",
    "1. Look at the first row: the number of objects grows by one.\nSo",
    "1) In the first row there are 3 triangles",
    "What the answer is:\n1. Look at the first row.\n2. Look at the next.",
    "**Answer:**\n\n**5**\n",
    "3 objects",
    "The answer is 12",
    "The answer is 3 or 4",
]


def test_written_answers_are_read_as_meant_or_not_at_all():
    """Of numbers only those that are called an answer; of a reply that was cut off only a complete answer."""
    three, eight = ("more objects", "fewer objects", "as many objects"), tuple("12345678")
    parts = []
    for texts, labels, options in ((LETTERS + CUT_OFF, "ABC", three), (NUMBERS, eight, eight)):
        for text in texts:
            read = []
            for reader in READERS.values():
                for cut_off in (False, True):
                    reading = reader(text, labels, options, cut_off=cut_off)
                    chosen = "-" if reading.option is None else labels[reading.option]
                    read.append(f"{chosen} ({reading.rule})")
            parts.append(f"{text!r}: {read[0]}; cut off: {read[1]}; first label: {'; '.join(dict.fromkeys(read[2:]))}")
    check_golden("multistar_replies", "\n".join(parts))
