"""The rules by which replies are read, each with its examples. ``evals.replies.reader.read`` says which one is tried when.

A reading's rule is the name of the *place* where the answer stood and of the *manner* in which it was given (``tag,
label``), or the reason why a reply is *unread*. The examples are tests; docs/replies.md shows them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        name: As the ledger stores it.
        part: What it tells of a reading.
        reads: What it reads, in one sentence.
        examples: Replies, each with the label of the option that is read; None where none is.
        cut_off: Whether the examples were cut off, by the token limit or a content filter.
    """

    name: str
    part: Literal["place", "manner", "unread"]
    reads: str
    examples: tuple[tuple[str, str | None], ...]
    cut_off: bool = False


QUESTION: Final = ("press the red button", "press the blue button", "press the yellow button", "do nothing")
"""The options of all examples, called A to D; a list of them is read as its first, as KidGym's are."""

RULES: Final = (
    Rule(
        "tag",
        "place",
        "The last answer tags that hold anything, in any case and however misspelled; not those of an example, or behind "
        "*if ...*, *not* or *almost*.",
        (
            ("<answer>B</answer>", "B"),
            ("<answer>A</answer> No: <ANSWER>C</ANSWER>", "C"),
            ("[answer]C[/answer]", "C"),
            ("<answer>B</answer>\nUser: Well done.", "B"),
            ("<answer>C</answer> (not <answer>A</answer>)", "C"),
            ("<answer>B?</answer>", "B"),
        ),
    ),
    Rule("open tag", "place", "A tag that is never closed.", (("So: <answer>C", "C"),)),
    Rule(
        "closing tag", "place", "The line before a closing tag that nothing opens.", (("It is lit.\nC</answer>", "C"),)
    ),
    Rule(
        "box",
        "place",
        "The last LaTeX box.",
        ((r"Hence $\boxed{B}$.", "B"), (r"\boxed{\text{B}}", "B")),
    ),
    Rule(
        "field",
        "place",
        "A JSON field that is called an answer, choice, action or so, if all such fields agree.",
        (('{"reason": "A is wrong", "answer": "B"}', "B"),),
    ),
    Rule(
        "answer line",
        "place",
        "Of a reply that was cut off, a line *Answer: ...* with something behind it.",
        (("**Answer: C**\n\n**Reasoning:** the red one is", "C"),),
        cut_off=True,
    ),
    Rule("no tag", "place", "The whole reply.", (("B", "B"), (r"\textbf{C}", "C"))),
    Rule(
        "corrected",
        "place",
        "A decision behind the tags, after *wait*, *sorry*, *actually* or so.",
        (("<answer>A</answer> Sorry, I choose B.", "B"),),
    ),
    Rule(
        "name",
        "manner",
        "Nothing but an option's text; case, accents, spaces and punctuation aside.",
        (("<answer>Press the blue button!</answer>", "B"),),
    ),
    Rule(
        "label",
        "manner",
        "Nothing but a label.",
        (("(b)", "B"), ("Final answer: **C**", "C"), ("**Answer:** (B)", "B"), ("Option D.", "D")),
    ),
    Rule("label and name", "manner", "Both, if they agree.", (("B) press the blue button", "B"),)),
    Rule(
        "list",
        "manner",
        "In KidGym, the first of several labels or texts, as published.",
        (("<answer>B, then C</answer>", "B"), ("C → B → A", "C")),
    ),
    Rule(
        "decides",
        "manner",
        "The last clause that decides for one option: *I choose*, *so*, *is best*, *the answer is*, or a label at its end "
        "behind *is* or a colon.",
        (
            ("I would go with B because it is lit.", "B"),
            ("The answer isn't A; it's B.", "B"),
            ("I choose A. Actually, C is better.", "C"),
            ("B is correct; A, C and D are distractors.", "B"),
            ("I'd press the yellow one.", "C"),
            ("Ich wähle den roten Knopf.", "A"),
        ),
    ),
    Rule(
        "bare",
        "manner",
        "Clauses that name one option and say nothing else, if they agree.",
        (("The lamp is on.\n\nB", "B"), ("yellow, please", "C")),
    ),
    Rule(
        "states",
        "manner",
        "Sentences that state it: *it is X* everywhere, *the bird is X* in KUMO and tags, any in MultiStAR.",
        (("It is the blue button that is lit.", "B"),),
    ),
    Rule(
        "ticked",
        "manner",
        "The only option that a list ticks, with marks or boxes.",
        (("❌ A\n✅ B", "B"), ("- [ ] A\n- [x] C", "C"), ("A ✗ B ✓ C ✗ D ✗", "B")),
    ),
    Rule("left over", "manner", "The only option that is not rejected.", (("Not A, B or D.", "C"),)),
    Rule(
        "no answer",
        "unread",
        "Nothing is chosen; what is asked, supposed, compared or described is not.",
        (
            ("I cannot see the image.", None),
            ("If the door is red then B, otherwise A.", None),
            ("If it is high, I would then say <answer>B</answer>", None),
            ("If the door is red: <answer>B</answer>\nIf not: <answer>A</answer>", None),
            ("<answer>letter</answer>", None),
        ),
    ),
    Rule(
        "two answers",
        "unread",
        "More than one is chosen, or a choice is doubted afterwards, or made up turns hold another.",
        (
            ("<answer>A</answer> or <answer>B</answer>", None),
            ("<answer>B or, if impossible, C</answer>", None),
            ("Plan: C → B → A", None),
            ("✅ A / ✅ B", None),
            ("<answer>A</answer>\n(Suppose that it opens.)\n<answer>C</answer>", None),
            ("I choose A. Or maybe B.", None),
            ("I take B.\nUser: No.\nAssistant: C", None),
        ),
    ),
    Rule("beyond the list", "unread", "A letter beyond the last option.", (("<answer>Z</answer>", None),)),
    Rule(
        "cut off",
        "unread",
        "A reply that was cut off, by the token limit or a content filter, before an answer was complete.",
        (("I choose B", None), ("<answer>A</answer> No: <answer>B", None)),
        cut_off=True,
    ),
)
