"""Parameters of vLLM's requests, without vLLM: its classes are told apart by their arguments alone."""

import json
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.engines.base import Request, Sampling
from cluster.engines.vllm_sampling import reply_parameters

VLLM = SimpleNamespace(
    SamplingParams=dict, StructuredOutputsParams=dict, RequestOutputKind=SimpleNamespace(FINAL_ONLY=2)
)
RAW_GRAMMAR = SimpleNamespace(choice_as_grammar=lambda options: f'root ::= "{options[0]}"')  # as in 0.26
ESCAPED_GRAMMAR = SimpleNamespace(choice_as_grammar=lambda options: f"root ::= {json.dumps(options[0])}")  # as in 0.32


@pytest.mark.parametrize("grammar", [RAW_GRAMMAR, ESCAPED_GRAMMAR], ids=["0.26", "0.32"])
@pytest.mark.parametrize("reasons", [False, True])
@given(options=st.sets(st.text(min_size=1), min_size=1), most=st.integers(1, 20), room=st.integers(1, 100))
def test_every_option_fits_into_a_reply_however_many_bytes_its_letters_take(reasons, grammar, options, most, room):
    """A token may be as short as a byte; the room that the context has left is a limit all the same."""
    request = Request("id", (), options=tuple(options), seed=1)
    how = {"lossless": True, "skip_special_tokens": True, "reasons": reasons}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "vllm.sampling_params", VLLM)
        patch.setitem(sys.modules, "vllm.v1.structured_output.utils", grammar)
        found = reply_parameters(Sampling(temperature=0.0, max_tokens=most), request, room, **how)
    if grammar is ESCAPED_GRAMMAR:
        assert found["structured_outputs"] == {"choice": [*options]}
    else:
        alternatives = found["structured_outputs"]["grammar"].removeprefix("root ::= ").split(" | ")
        if not any(" | " in option for option in options):
            assert [json.loads(alternative) for alternative in alternatives] == [*options]
    needed = max(len(option.encode()) for option in options) + 1 + (most if reasons else 0)
    assert found["max_tokens"] == min(needed, room)
