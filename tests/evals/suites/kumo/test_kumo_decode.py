"""Replies as models write them, and what each decoder reads in them."""

import tracemalloc

import pytest

from evals.replies.reasoning import separate_reasoning
from evals.suites.kumo.decode import decode
from evals.types import Reply
from tests.golden import check_golden

ACTIONS = (
    "Brain MRI",
    "MRI",
    "D-Dimer Test",
    "Complete Blood Count (CBC)",
    "Chest X-Ray",
    "Tuning to C",
    "Tuning to C#",
)
TRUTHS = ("Crohn's Disease", "Brain Tumor", "Pulmonary Embolism", "Type 2 Diabetes", "Béla's Étude")

NOUNS = ("disease", "diseases", "diagnostic test", "diagnostic tests")

READ = [
    ("<ANSWER> MRI </ANSWER>\nResult: <ANSWER> MRI </ANSWER>", "MRI"),
    ("<ANSWER> MRI </ANSWER>\nResult: it will tell.\n<ANSWER> MRI </ANSWER>", "MRI"),
    ("If I had to guess, <ANSWER> Brain Tumor? </ANSWER>", "Brain Tumor"),
    ("If the scan were clear it would not swell, so <ANSWER> Brain Tumor </ANSWER>", "Brain Tumor"),
    # as asked for
    ("<ANSWER> Brain MRI </ANSWER>", "Brain MRI"),
    ("<ANSWER>Brain Tumor</ANSWER>", "Brain Tumor"),
    (
        "The scan is normal, so no tumour. I will test more.\n\n<ANSWER> D-Dimer Test </ANSWER>",
        "D-Dimer Test",
    ),
    ("<ANSWER>\nComplete Blood Count (CBC)\n</ANSWER>", "Complete Blood Count (CBC)"),
    ("<ANSWER> Crohn's Disease </ANSWER>.", "Crohn's Disease"),
    ("**<ANSWER> MRI </ANSWER>**", "MRI"),
    ("```\n<ANSWER> MRI </ANSWER>\n```", "MRI"),
    ("<ANSWER> Tuning to C# </ANSWER>", "Tuning to C#"),
    # the last tag wins
    ("First <ANSWER> MRI </ANSWER>, no: <ANSWER> Brain Tumor </ANSWER>", "Brain Tumor"),
    ("I must end with <ANSWER> name </ANSWER>.\n<ANSWER> Brain Tumor </ANSWER>", "Brain Tumor"),
    ("<ANSWER> MRI </ANSWER>\n<ANSWER></ANSWER>", "MRI"),
    ("<think>maybe <ANSWER> MRI </ANSWER></think>\n<ANSWER> Brain MRI </ANSWER>", "Brain MRI"),
    # the tag written otherwise
    ("<answer> Brain MRI </answer>", "Brain MRI"),
    ("<Answer>brain mri</Answer>", "Brain MRI"),
    ("< ANSWER > Brain MRI < / ANSWER >", "Brain MRI"),
    ("[ANSWER] Brain MRI [/ANSWER]", "Brain MRI"),
    ("\\<ANSWER\\> Brain MRI \\</ANSWER\\>", "Brain MRI"),
    ("&lt;ANSWER&gt; Brain MRI &lt;/ANSWER&gt;", "Brain MRI"),
    ("<ANSWER> Brain MRI <ANSWER>", "Brain MRI"),
    ("<ANSWER> Brain MRI", "Brain MRI"),
    ("Let us see.\n<ANSWER> brain mri.", "Brain MRI"),
    ("<ANSWER> Brain MRI\n\nIt separates what is left.", "Brain MRI"),
    ("Brain MRI </ANSWER>", "Brain MRI"),
    ("I think that is it.\nBrain Tumor\n</ANSWER>", "Brain Tumor"),
    # the name written otherwise
    ("<ANSWER> BRAIN MRI </ANSWER>", "Brain MRI"),
    ("<ANSWER> 'Brain MRI' </ANSWER>", "Brain MRI"),
    ('<ANSWER> "Brain MRI" </ANSWER>', "Brain MRI"),
    ("<ANSWER> “Brain MRI” </ANSWER>", "Brain MRI"),
    ("<ANSWER> `Brain MRI` </ANSWER>", "Brain MRI"),
    ("<ANSWER> **Brain MRI** </ANSWER>", "Brain MRI"),
    ("<ANSWER> *brain mri* </ANSWER>", "Brain MRI"),
    ("<ANSWER> __Brain MRI__ </ANSWER>", "Brain MRI"),
    ("<ANSWER> **`Brain MRI`.** </ANSWER>", "Brain MRI"),
    ("<ANSWER> - Brain MRI </ANSWER>", "Brain MRI"),
    ("<ANSWER>\n* Brain MRI\n</ANSWER>", "Brain MRI"),
    ("<ANSWER> • Brain MRI </ANSWER>", "Brain MRI"),
    ("<ANSWER> 1. Brain MRI </ANSWER>", "Brain MRI"),
    ("<ANSWER> 2) Brain MRI </ANSWER>", "Brain MRI"),
    ("<ANSWER> Brain MRI. </ANSWER>", "Brain MRI"),
    ("<ANSWER> Brain  MRI! </ANSWER>", "Brain MRI"),
    ("<ANSWER> -Brain MRI </ANSWER>", "Brain MRI"),
    ("<ANSWER> → Brain MRI </ANSWER>", "Brain MRI"),
    ("<ANSWER> ['Brain MRI'] </ANSWER>", "Brain MRI"),
    ("<ANSWER> <Brain MRI> </ANSWER>", "Brain MRI"),
    ("<ANSWER> {Brain MRI} </ANSWER>", "Brain MRI"),
    ("<ANSWER> Crohn’s disease </ANSWER>", "Crohn's Disease"),
    ("<ANSWER> D‑Dimer Test </ANSWER>", "D-Dimer Test"),
    ("<ANSWER> Be\u0301la's E\u0301tude </ANSWER>", "Béla's Étude"),
    ("<ANSWER> complete blood count (cbc) </ANSWER>", "Complete Blood Count (CBC)"),
    ("<ANSWER> ${Brain MRI} </ANSWER>", "Brain MRI"),
    ("<ANSWER> ${brain mri </ANSWER>", "Brain MRI"),
    ("<ANSWER> ${action_name}: ${Brain MRI} </ANSWER>", "Brain MRI"),
    ("<ANSWER> Action: Brain MRI </ANSWER>", "Brain MRI"),
    ("<ANSWER> **Action:** Brain MRI </ANSWER>", "Brain MRI"),
    ("<ANSWER> Final answer: Prediction: Brain Tumor. </ANSWER>", "Brain Tumor"),
    ("<ANSWER> action_name = 'Brain MRI' </ANSWER>", "Brain MRI"),
    ("<ANSWER> brain_mri </ANSWER>", "Brain MRI"),
    ("<ANSWER> Chest X Ray </ANSWER>", "Chest X-Ray"),
    ("<ANSWER> Complete Blood Count - CBC </ANSWER>", "Complete Blood Count (CBC)"),
    # a name among filler words, in a tag only
    ("<ANSWER> I choose the Brain MRI. </ANSWER>", "Brain MRI"),
    ("<ANSWER> Predict Brain Tumor </ANSWER>", "Brain Tumor"),
    ("<ANSWER> My final answer is Type 2 Diabetes </ANSWER>", "Type 2 Diabetes"),
    ('<ANSWER> {"action": "Brain MRI"} </ANSWER>', "Brain MRI"),
    ("<ANSWER> $\\boxed{\\text{Brain MRI}}$ </ANSWER>", "Brain MRI"),
    ("<ANSWER> Brain MRI (action) </ANSWER>", "Brain MRI"),
    ("<ANSWER><action>Brain MRI</action></ANSWER>", "Brain MRI"),
    ("<ANSWER>\nBrain MRI\nIt separates what is left.\n</ANSWER>", "Brain MRI"),
    # no tag, and nothing but the name
    ("Brain MRI", "Brain MRI"),
    ("  Brain Tumor\n", "Brain Tumor"),
    ("**Brain tumor**", "Brain Tumor"),
    ("Answer: Brain Tumor", "Brain Tumor"),
    # no tag, and a last line that decides
    ("A scan speaks against MRI.\n\n<Brain Tumor>", "Brain Tumor"),
    ("MRI excluded the rest.\n" * 50 + "\nAnswer: Brain Tumor", "Brain Tumor"),
    ("It splits best. I choose the Brain MRI.", "Brain MRI"),
    ("The answer is Brain Tumor.", "Brain Tumor"),
    ("With Type 2 Diabetes ruled out, my answer is Brain Tumor.", "Brain Tumor"),
    ("As MRI says:\n\n**Final answer:**\n\n**Brain Tumor**", "Brain Tumor"),
    ('```json\n{"why": "MRI", "answer": "Brain Tumor"}\n```', "Brain Tumor"),
    # the classes that were once unread: accents, spelling, nouns, abbreviations, misspelled tags
    ("<ANSWER> Crohn's Diséase </ANSWER>", "Crohn's Disease"),
    ("<ANSWER> Brain Tumour </ANSWER>", "Brain Tumor"),
    ("<ANSWER> Crohns Disease </ANSWER>", "Crohn's Disease"),
    ("<ANSWER> Disease: Brain Tumor </ANSWER>", "Brain Tumor"),
    ("<ANSWER> diagnostic test Brain MRI </ANSWER>", "Brain MRI"),
    ("<ANSWER> Pulmonary Embolism (PE) </ANSWER>", "Pulmonary Embolism"),
    ("<ANSWER> Complete Blood Count (CBC) (to look for anemia) </ANSWER>", "Complete Blood Count (CBC)"),
    ("<ANSWER> Brain Tumor </ANSWER>\n<ANSWER> name </ANSWER>", "Brain Tumor"),
    ("<ANSWER> Brain Tumor </ANWSER>", "Brain Tumor"),
    ("<ANSWER> Brain Tumor </ANSWER> Brain Tumor </ANSWER>", "Brain Tumor"),
    ("<ANSWER> Brain Tumor </ANSWER> as I said </ANSWER>", "Brain Tumor"),
    ("<ANSWER>我选择Brain MRI</ANSWER>", "Brain MRI"),
]

UNREAD = [
    # outcomes made up behind a tag, and what holds on a condition
    *(
        f"<ANSWER> MRI </ANSWER>{told}<ANSWER> Brain Tumor </ANSWER>"
        for told in (
            "\nResult: high\n",
            "\n**Outcome:** high\n",
            "\n*simulated result: a mass*\n",
            " Observation: dark. ",
            " → dark → ",
        )
    ),
    "If it shows a mass: <ANSWER> Brain Tumor </ANSWER>\nIf not, <ANSWER> Pulmonary Embolism </ANSWER>",
    "<ANSWER> MRI or Brain Tumor? </ANSWER>",
    "",
    "   \n",
    "The answer might be Brain Tumor.",
    "If the scan is normal, my answer is Brain Tumor.",
    "The answer is not Brain Tumor.",
    "Is the answer Brain Tumor?",
    "Answer: Brain Tumor, unless the MRI is normal",
    "Some think.\nAnswer: Brain Tumor\nBut I am not sure.",
    '{"answer": "Brain Tumor", "second answer": "MRI"}',
    "Brain MRI or MRI",
    "<ANSWER></ANSWER>",
    "So I say <ANSWER> ** </ANSWER>",
    "<ANSWER> name </ANSWER>",
    "<ANSWER> ${action_name} </ANSWER>",
    "<ANSWER> Liver Biopsy </ANSWER>",
    "<ANSWER> Brain </ANSWER>",
    "<ANSWER> Brain MRI with contrast </ANSWER>",
    "<ANSWER> not Brain Tumor </ANSWER>",
    "<ANSWER> anything but Brain Tumor </ANSWER>",
    "<ANSWER> Ruled out: Brain Tumor </ANSWER>",
    "<ANSWER> Since the scan is normal, Brain Tumor seems unlikely </ANSWER>",
    "<ANSWER> !Brain Tumor </ANSWER>",
    "<ANSWER> ! Brain Tumor </ANSWER>",
    "<ANSWER> ≠ Brain Tumor </ANSWER>",
    "<ANSWER> ❌ Brain Tumor </ANSWER>",
    "<ANSWER> ~~Brain Tumor~~ </ANSWER>",
    "<ANSWER> <s>Brain Tumor</s> </ANSWER>",
    "<ANSWER> not ${Brain Tumor} </ANSWER>",
    "<ANSWER> Tuning to C♭ </ANSWER>",
    "<ANSWER>\nBrain Tumor\nis ruled out by now.\n</ANSWER>",
    "<ANSWER>\nBrain Tumor\nNo, wait.\n</ANSWER>",
    "<ANSWER>\nBrain Tumor\nIt isn't likely.\n</ANSWER>",
    "<ANSWER> ${Brain MRI} or ${Brain Tumor} </ANSWER>",
    "<ANSWER> ${Brain MRI}: ${Brain Tumor} </ANSWER>",
    "<ANSWER> MRI: Brain Tumor </ANSWER>",
    '<ANSWER> {"action": "Brain MRI", "truth": "Brain Tumor"} </ANSWER>',
    "<ANSWER> ~~Brain MRI~~ Brain Tumor </ANSWER>",
    "<ANSWER> Brain MRI, MRI </ANSWER>",
    "<ANSWER> Brain MRI or Brain Tumor </ANSWER>",
    "<ANSWER>\nBrain MRI\nBrain Tumor\n</ANSWER>",
    "<ANSWER> Brain MRI and then predict Brain Tumor",
    "<ANSWER> MRI </ANSWER> or rather <ANSWER> Biopsy </ANSWER>",
    "<ANSWER> MRI </ANSWER> Brain Tumor </ANSWER>",
    "<ANSWER> Brain Tumor (if the scan is right) </ANSWER>",
    "<ANSWER> Brain Tumor (ruled out) </ANSWER>",
    "<ANSWER> Brain Tumor (MRI) </ANSWER>",
    "<ANSWER> not Brain Tumor (BT) </ANSWER>",
    "<ANSWER> B\u0336r\u0336a\u0336i\u0336n\u0336 T\u0336u\u0336m\u0336o\u0336r\u0336 </ANSWER>",
]


OTHERS = [
    *(
        "a <ANSWER> MRI </ANSWER> b <ANSWER> Brain Tumor </ANSWER>",
        "Brain MRI </ANSWER> as I said",
        "I choose Brain MRI",
    ),
    *("<ANSWER> MRI </ANSWER> <ANSWER></ANSWER>", "<answer> Brain MRI </answer> In other words, the patient"),
    *("<think> <ANSWER> MRI </ANSWER> </think> <ANSWER> Brain MRI </ANSWER>", "<ANSWER> Brain MRI </ANS"),
    *("<ANSWER> MRI </ANSWER> No: <ANSWER> Brain", "<ANSWER> MRI </ANSWER> No: <ANSWER>", "Brain MRI"),
    *("<think> Perhaps <ANSWER> MRI </ANSWER>, but", "<think> Perhaps <ANSWER> MRI </ANSWER>. </think>"),
    *("Let me see. The scan shows", "<ANSWER> MRI </ANSWER>\nThe expected result of a scan: <ANSWER> MRI </ANSWER>"),
]
SETS = [
    (("Comet",), ("Comet", "Star"), ["Comet"]),
    # Names that differ only in marks need to be written exactly.
    (("Pitch (low)", "Pitch low", "F", "F#"), (), ["Pitch (low)", "pitch: low", "*F#*", "*F*"]),
    (("Test A", "Test B"), ("Gout", "Influenza"), ["Test A: Gout", "Test A", "Test: Gout"]),
    (("-1",), ("A+", "A-", "O+"), ["A+", "a-", "**A−**", "A", "A±", "-A", "O+", "O", "O-", "-1", "1", "+1"]),
]


def test_replies_are_read_as_a_person_would_and_as_published_as_on_record():
    """Lenient, nothing is guessed; of a reply that was cut off only a complete answer is read."""
    expected = {**dict(READ), **dict.fromkeys(UNREAD)}
    parts = []
    for reply in (*expected, *OTHERS):
        text = separate_reasoning(Reply(reply)).text
        lenient, cut = (decode(text, ACTIONS, TRUTHS, cut=cut, nouns=NOUNS) for cut in (False, True))
        assert lenient.name == expected.get(reply, lenient.name), reply
        plain = decode(text, ACTIONS, TRUTHS)
        strict = decode(reply, ACTIONS, TRUTHS, strict=True)
        assert decode(reply, ACTIONS, TRUTHS, strict=True, cut=True).rule == "parse error"
        told = [f"{each.name} {each.kind} ({each.rule})" for each in (lenient, cut, strict)]
        others = f"; without nouns {plain.name} ({plain.rule})" if plain != lenient else ""
        parts.append(f"{reply!r}: {told[0]}; cut off {told[1]}; strict {told[2]}{others}")
    for actions, truths, replies in SETS:
        for reply in replies:
            told = [decode(f"<ANSWER> {reply} </ANSWER>", actions, truths, strict=strict) for strict in (False, True)]
            parts.append(
                f"{actions} {truths} {reply}: {'; '.join(f'{each.name} {each.kind} ({each.rule})' for each in told)}"
            )
    check_golden("kumo_replies", "\n".join(parts))


def test_an_abbreviation_that_fits_two_names_is_none():
    tests = ("Echocardiogram", "Electrocardiogram")
    assert decode("<ANSWER> Echocardiogram (ECG) </ANSWER>", tests, ()).name is None
    assert decode("<ANSWER> Electrocardiogram (EKG) </ANSWER>", tests, ()).name is None
    assert decode("<ANSWER> Electrocardiogram (ECG) </ANSWER>", tests[1:], ()).name == "Electrocardiogram"


@pytest.mark.slow
def test_labels_upon_labels_take_no_memory():
    decode("<ANSWER> MRI </ANSWER>", ACTIONS, TRUTHS)
    tracemalloc.start()
    try:
        assert decode("<ANSWER> " + "Answer: " * 4_000, ACTIONS, TRUTHS).name is None
        assert decode("<ANSWER> " + "Answer: " * 4_000 + "MRI", ACTIONS, TRUTHS).name == "MRI"
        assert tracemalloc.get_traced_memory()[1] < 8_000_000, "quadratic in the length of the reply"
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_hostile_replies_are_read_in_no_time():
    for reply in ("<ANSWER>" * 20_000, "<ANSWER>" + '"1. ' * 5_000, "* " * 50_000, "${" * 50_000, "</ANSWER>" * 20_000):
        assert decode(reply, ACTIONS, TRUTHS).name is None
    for label in ("Answer: ", "a=", "!", "- ", "~", "'"):
        assert decode("<ANSWER> " + label * 16_000, ACTIONS, TRUTHS).name is None
