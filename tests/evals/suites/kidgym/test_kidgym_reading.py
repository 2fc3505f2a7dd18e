"""The paper's and the published code's rules for reading a reply."""

import pytest

from evals.suites.kidgym.published_decoders import decode_as_paper, decode_as_published

ACTIONS = ("pick up item with label 1", "pick up item with label 2", "pick up item with label 3")
LONG = tuple(f"place animal at grid {number}" for number in range(16))


@pytest.mark.parametrize(
    ("reply", "actions", "paper", "published"),
    [
        ("<answer>A</answer>", ACTIONS, 0, 0),
        ("<ANSWER>B</ANSWER>", ACTIONS, 1, 1),  # the code takes it for no tag, and B stands by itself
        ("A", ACTIONS, 0, 0),
        ("I choose action letter B) 'pick up item with label 2'.", ACTIONS, 1, 1),
        ("pick up item with label 3", ACTIONS, 2, None),  # the code wants quotes
        ("b", ACTIONS, None, None),
        ("...?-=\\== ..n\n The-1", ACTIONS, None, None),
        ("Based on it I choose action C", ACTIONS, 1, 2),  # the paper's first capital is that of Based
        ("BLUE key first", ACTIONS, 1, 1),
        ("A good choice is C", ACTIONS, 0, 0),
        ("I choose C", LONG, 8, 8),
        ("Z", ACTIONS, None, None),
    ],
)
def test_published_rules(reply, actions, paper, published):
    found = decode_as_paper(reply, actions).option, decode_as_published(reply, actions).option
    assert found == (paper, published)
