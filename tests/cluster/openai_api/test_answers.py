"""What the API engine reads, and does not read, in answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.engines.api_answer import Usage, read_answer, read_usage
from cluster.engines.api_errors import EndpointError
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


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("model_context_window_exceeded", "length"),
        ("token_limit", "length"),
        ("sensitive", "content_filter"),
        ("ERROR_TOXIC", "content_filter"),
        *((reason, None) for reason in ("network_error", "timeout", "aborted", "cancelled")),
    ],
)
def test_a_reply_that_broke_off_is_no_whole_one(reason, finish):
    choice = {"finish_reason": reason, "message": {"role": "assistant", "content": "I choose B"}}
    if finish is None:
        with pytest.raises(EndpointError, match="broke off"):
            read_answer({"choices": [choice]})
    else:
        assert read_answer({"choices": [choice]}).finish == finish


def test_moonshot_tells_cached_tokens_beside_the_others():
    usage = {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010, "cached_tokens": 900}
    assert read_usage({"usage": usage}) == Usage(1000, 10, cached=900)


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
