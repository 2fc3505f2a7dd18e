"""What the API engine reads, and does not read, in answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.engines.api_answer import read_usage
from envs.kidgym import make
from evals.chat_json import png
from evals.types import PlayerError
from tests.cluster.openai_api.stub import engine, request

FRAME = make("CL", 1, 0).frame


async def test_a_reply_carries_text_and_tokens(stub):
    reply = await engine(stub).complete(request())
    assert (reply.text, reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens) == ("hello", 100, 10, 64)
    sent = stub.bodies[0]
    assert (sent["model"], sent["max_tokens"], sent["temperature"]) == ("stub", 50, 0.0)


@pytest.mark.parametrize("error", [FileNotFoundError("no such puzzle"), ValueError("has changed")], ids=repr)
async def test_a_picture_whose_file_is_damaged_is_no_failure_of_the_endpoint(stub, monkeypatch, error):
    def torn(_):
        raise error

    png.cache_clear()  # another test may have drawn it
    monkeypatch.setattr(type(FRAME), "render", torn)
    with pytest.raises(PlayerError, match=str(error)) as raised:
        await engine(stub).complete(request(said=FRAME))
    assert raised.value.kind == "suite" and not stub.bodies


@given(counts=st.fixed_dictionaries({name: st.integers(0, 60) | st.none() for name in ("p", "c", "t", "r", "w", "k")}))
def test_parts_of_a_usage_add_up_to_no_more_than_the_whole(counts):
    prompt = {"cached_tokens": counts["r"], "cache_write_tokens": counts["w"]}
    usage = {"prompt_tokens": counts["p"], "completion_tokens": counts["c"], "total_tokens": counts["t"]}
    usage |= {"prompt_tokens_details": prompt, "completion_tokens_details": {"reasoning_tokens": counts["k"]}}
    found = read_usage({"usage": usage})
    read = counts["r"] or 0
    assert found.cached == (read if read <= (found.prompt or 0) else 0), "more than there was is not believed"
    assert found.cached + found.written == min(found.cached + (counts["w"] or 0), found.prompt or 0)
    assert found.reasoning == min(counts["k"] or 0, found.completion or 0)
