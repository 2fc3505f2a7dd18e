"""What stands between a turn and vLLM, tested without vLLM: what is refused, parts of a chat, scores of labels."""

import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from cluster.engines.vllm_chat import VLLMChat
from cluster.engines.vllm_sampling import label_scores
from envs.kidgym import make
from evals.types import PlayerError, message

FRAME = make("CL", 1, 0).frame


def chat_of(multimodal: bool, shown: object = None) -> VLLMChat:
    """The parts that need neither a tokenizer nor a renderer; pictures are rendered as ``shown``, an error is raised."""

    def render(picture):
        if isinstance(shown, Exception):
            raise shown
        return shown

    chat = VLLMChat.__new__(VLLMChat)
    chat.multimodal, chat.model, chat._render = multimodal, "m", render
    return chat


def test_a_model_without_pictures_is_shown_none_wherever_it_stands():
    said = [message("user", "Look.", FRAME), message("assistant", "A"), message("user", "And now?")]
    with pytest.raises(PlayerError, match="m reads text only"):
        chat_of(multimodal=False).rendered(said)


def test_a_picture_is_told_from_others_by_its_key_however_it_is_sent():
    image = Image.new("RGB", (1, 1))
    assert chat_of(True, image)._part(FRAME) == {"type": "image_pil", "image_pil": image, "uuid": FRAME.key}
    address = {"type": "image_url", "image_url": {"url": "data:x"}, "uuid": FRAME.key}
    assert chat_of(True, "data:x")._part(FRAME) == address
    assert chat_of(True)._part("words") == {"type": "text", "text": "words"}
    with pytest.raises(PlayerError, match=r"cannot be rendered: gone: \{") as raised:
        chat_of(True, OSError("gone"))._part(FRAME)
    assert raised.value.kind == "suite", "the model is not to blame for a file"


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=5), st.integers(0, 5))
def test_scores_of_labels_are_their_own_and_their_mass_is_what_they_have_of_all(shares, likeliest):
    total = sum(shares) + 0.5
    tokens = [10 + place for place in range(len(shares))]
    row = {token: SimpleNamespace(logprob=math.log(share / total)) for token, share in zip(tokens, shares, strict=True)}
    answer = SimpleNamespace(logprobs=[row | {99: SimpleNamespace(logprob=-1.0)}], token_ids=[10 + likeliest])
    scores = label_scores(tokens, answer)
    assert scores.logprobs == pytest.approx([math.log(share / total) for share in shares])
    assert scores.mass == pytest.approx(sum(shares) / total)
    assert scores.argmax_is_label == (likeliest < len(shares))
    with pytest.raises(PlayerError, match="no log-probabilities"):
        label_scores(tokens, SimpleNamespace(logprobs=None, token_ids=[10]))
