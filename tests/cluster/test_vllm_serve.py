"""A real OpenAI-compatible server: ``vllm serve`` with the tiny model, asked by the API engine and by a whole run."""

import json
import math
import os
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from cluster.engines import torch_compat
from cluster.engines.base import Request, Sampling
from cluster.engines.openai_api import OpenAIEngine
from cluster.engines.tiny_model import ensure_tiny_model
from envs.picture import Picture
from evals.types import PromptTooLong, message
from tests.cluster.conftest import EASY, raycade

pytestmark = pytest.mark.vllm


@dataclass(frozen=True)
class Square(Picture):
    kind: ClassVar[str] = "serve_square"
    gray: int

    @property
    def size(self):
        return (56, 56)

    def render(self):
        return np.full((56, 56, 3), self.gray, np.uint8)


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("serve") / "log"
    # what `vllm serve` runs; the command itself asks for a package called vllm, which the CPU build is not
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(ensure_tiny_model())]
    command += ["--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32"]
    command += ["--max-model-len", "8192", "--max-num-seqs", "16", "--enforce-eager"]
    cure = str(Path(torch_compat.__file__).parent)
    environment = {**os.environ, "PYTHONPATH": cure, "VLLM_CPU_KVCACHE_SPACE": "1", "TORCHDYNAMO_DISABLE": "1"}
    environment |= {"OMP_NUM_THREADS": "1", "VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1"}
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output, env=environment, start_new_session=True)
    end = time.monotonic() + 300
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2)
            break
        except OSError:
            assert server.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < end, log.read_text()[-3000:]
            time.sleep(1)
    yield f"http://127.0.0.1:{port}/v1"
    server.terminate()
    server.wait(60)


def engine(url, **settings) -> OpenAIEngine:
    return OpenAIEngine(Sampling(max_tokens=8), model="tiny", base_url=url, choices="vllm", **settings)


async def test_texts_pictures_choices_and_label_scores(url):
    made = engine(url)
    text = await made.complete(Request("t", (message("user", "Say something."),)))
    assert text.prompt_tokens > 0 and 0 < text.completion_tokens <= 8
    picture = await made.complete(Request("p", (message("user", "Look: ", Square(90)),)))
    assert picture.prompt_tokens > text.prompt_tokens
    options = ("the red one", "the 'blue' one")
    assert (await made.complete(Request("c", (message("user", "Which?"),), options=options))).text in options
    scores = (await made.complete(Request("l", (message("user", "A or B?"),), labels=("A", "B")))).label_scores
    assert not scores.exact and all(math.isnan(value) or value < 0 for value in scores.logprobs)
    with pytest.raises(PromptTooLong):
        await made.complete(Request("x", (message("user", "word " * 9000),)))
    await made.close()


def test_a_whole_run_through_the_api(url, tmp_path):
    games = [*EASY, "suite.tasks_per_domain=3", "suite.repeats=1"]
    api = ["model=openai", "model.engine.model=tiny", f"model.engine.base_url={url}", "model.engine.choices=vllm"]
    result = raycade(
        "run", *games, *api, "decoding=choice", "model.sampling.max_tokens=32", f"run_dir={tmp_path / 'run'}"
    )
    assert result.returncode == 0, result.stderr
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert [summary[name] for name in ("planned", "done", "failed", "missing")] == [3, 3, 0, 0]
