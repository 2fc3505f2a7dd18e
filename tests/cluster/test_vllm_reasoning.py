"""How replies are separated from their reasoning, and its tokens counted, without an engine."""

import pytest

from cluster.engines.vllm_reasoning import Reasoning
from evals.replies.reasoning import THINKING_MARKS
from evals.types import Reply


class Characters:
    """Every character is a token."""

    def encode(self, text):
        return list(map(ord, text))


@pytest.mark.parametrize("marks", [marks for marks in THINKING_MARKS if not marks[0].isalpha()], ids=str)
def test_all_known_marks_may_be_opened_by_a_template(marks):
    opening, closing = marks
    reasoning = Reasoning(None, Characters(), None, {})
    opened = reasoning.opened(f"user: hm\nassistant: {opening}\n")
    said = f"hm{closing}red"
    reply = reasoning.separate(Reply(said), Characters().encode(said), opened)
    assert (reply.text, reply.reasoning, reply.reasoning_tokens) == ("red", "hm", len(said) - 3)
    cut = reasoning.separate(Reply("hm"), Characters().encode("hm"), opened)
    assert (cut.text, cut.reasoning) == ("", "hm")


def test_a_thought_s_tokens_end_behind_its_mark_or_where_the_answer_s_begin():
    count = Reasoning(None, Characters(), None, {})._count
    end, answer = Characters().encode(THINKING_MARKS[0][1]), Reply("red")
    for ids, counted in (
        *(([1, 2, *end], 2 + len(end)), ([1, *end, 2, *end, 3], 2 + 2 * len(end)), (end, len(end))),
        *(([1] * 5, 2), ([1] * 3, 0), ([1], 0), ([], 0)),
    ):
        assert (count(answer, ids), count(Reply(""), ids)) == (counted, len(ids)), ids
