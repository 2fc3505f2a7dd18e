"""How a small copy of a model is written, started, asked and compared, step by step, as on record in ``tests/golden``."""

import asyncio
import contextlib
import datetime
import importlib.metadata
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from cluster.engines.base import EngineError
from cluster.models import prove, shrink
from cluster.models.hub import Files
from evals.types import LabelScores, PlayerError, Reply, message
from tests.cluster.openai_api.test_requests import Dot
from tests.said import Said, Thing

TEXT = {"num_attention_heads": 8, "num_key_value_heads": 8, "hidden_size": 999, "layer_types": ["full_attention"] * 3}
WORDS = {"special": ["<p>", "<e>", "<i>"], "end": "<e>", "template": "{{ é }}"}
SEES = {"text_config": TEXT, "vision_config": {"depth": 9, "out_hidden_size": 7}, "model_type": "v"}


@pytest.fixture
def said(capsys, tmp_path, monkeypatch):
    """What is said, with stand-ins for torch and transformers."""
    found = Said(capsys, tmp_path)
    weights = {name: Thing(found, name) for name in ("model.a.up", "model.language_model.b.down", "c.up", "lm_head")}

    def kind(name):

        def save(*given, **named):
            found("   with", model.generation_config)
            del model.generation_config

        saved = found.calls(f"a {name}.save_pretrained", save)
        model = Thing(found, f"a {name}", state_dict=lambda: weights, save_pretrained=saved)
        made = Thing(found, "made", to=found.calls("to", model))
        return Thing(found, name, from_config=found.calls(f"{name}.from_config", made))

    transformers = Thing(found, "transformers", Causal=kind("Causal"), Sees=kind("Sees"))
    transformers.AutoModelForCausalLM, transformers.AutoModelForImageTextToText = transformers.Causal, transformers.Sees
    random = Thing(found, "random", fork_rng=lambda devices: contextlib.nullcontext(found("forked", devices)))
    torch = Thing(found, "torch", random=random, no_grad=contextlib.nullcontext)
    for name, module in {"torch": torch, "transformers": transformers}.items():
        monkeypatch.setitem(sys.modules, name, module)
    backend = Thing(found, "backend", from_pretrained=lambda home: Thing(found, "own", apply_chat_template=inputs))
    inputs = found.calls("apply_chat_template", {"of": "its own tokenizer"})
    monkeypatch.setitem(
        sys.modules, "transformers.tokenization_mistral_common", SimpleNamespace(MistralCommonBackend=backend)
    )
    return found


def test_small_copies_are_written_step_by_step(said, monkeypatch, tmp_path):
    for name in ("torch_compat", "write_mistral_files"):
        monkeypatch.setattr(shrink, name, Thing(said, name, __file__=shrink.torch_compat.__file__))
    monkeypatch.setattr(shrink, "write_tekken", said.calls("write_tekken", {"<p>": 5, "<e>": 6}))

    def write_tokenizer(home, corpus, *given):
        said("-> write_tokenizer", home, corpus[:30], given)
        return {"<p>": 1, "<e>": 2, "<i>": 3}

    monkeypatch.setattr(shrink, "write_tokenizer", write_tokenizer)
    words = {"words": ["<t>"], "named": {"image_token": "<i>"}, "processor": {"a": 1}, "processor_config": {"b": 2}}
    moved = {"prefix": {"model.": "model.language_model."}, "transposed": ["up"]}
    there = tmp_path / "there"
    there.mkdir()
    for name in ("config", "generation_config", "tokenizer_config", "model.safetensors.index", "vocab"):
        (there / f"{name}.json").write_text(f'"{name}"')
    for name in ("chat_template.jinja", "a.model", "b.txt", "c.safetensors", "d.py"):
        (there / name).write_text(name)
    (there / "folder.json").mkdir()
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setattr("huggingface_hub.snapshot_download", said.calls("snapshot_download", str(there)))
    for name, config, more in (
        ("words", TEXT, {"copy": WORDS}),
        ("sees", SEES, {"copy": WORDS | words | {"ids": {"image_token_id": "<i>"}, "sizes": {"hidden_size": 64}}}),
        ("moved", {"text_config": TEXT}, {"copy": WORDS | moved}),
        ("tekken", TEXT, {"copy": WORDS | {"tekken": {"x": 1}}}),
        ("folder", TEXT, {"folder": there, "generation": {"top_k": 5}}),
        ("hub", TEXT, {"folder": empty}),
        ("nowhere", TEXT, {}),
    ):
        said(f"--- {name}")
        home = tmp_path / name
        home.mkdir()
        said("=", shrink.write_small_model(Files("org/m", "here", config, **more), home))
        for path in sorted(home.iterdir()):
            said(path.name, path.read_text())
    said.check("small_copies")


def test_small_copies_are_tried_step_by_step(said, monkeypatch, tmp_path):
    proof = prove.Proof("org/m", "untried", "today", {}, "here")
    sees = Files(
        "org/m", "here", {**SEES, "architectures": ["Qwen3VLForConditionalGeneration"]}, copy={"dtype": "bfloat16"}
    )
    text = Files("org/m", "here", {**TEXT, "architectures": ["GptOssForCausalLM"]})

    def ending(name, error, result=None):
        async def call(*given):
            said(f"-> {name}", given)
            if error is not None:
                raise error
            return result

        return call

    for files, small, start, asks, known in (
        (sees, None, None, None, True),
        (text, None, None, ValueError("other"), True),
        (text, None, EngineError("no\n kernel"), None, True),
        (text, KeyError("no class"), None, None, True),
        (text, ValueError(), None, None, False),
    ):
        engine = Thing(said, "engine", start=ending("start", start), close=ending("close", None))
        monkeypatch.setattr(prove, "VLLMEngine", said.calls("VLLMEngine", engine))
        monkeypatch.setattr(prove, "_has_config", lambda files, known=known: known)
        monkeypatch.setattr(prove, "_asked", ending("asked", asks, "asked"))

        def write(files, home, small=small):
            if small is not None:
                raise small

        monkeypatch.setattr(prove, "write_small_model", write)
        said.tried("tried", lambda files=files: asyncio.run(prove._tried(proof, files, tmp_path)))
    family = SimpleNamespace(thinking=SimpleNamespace(default="always", parser="own"))
    for found in (
        family,
        SimpleNamespace(thinking=None),
        SimpleNamespace(thinking=SimpleNamespace(default="on", parser="x")),
    ):
        monkeypatch.setattr(prove, "family_of", said.calls("family_of", found))
        prove._engine(text, tmp_path, "float32")

    def versions(name):
        if name in ("vllm", "torch"):
            raise importlib.metadata.PackageNotFoundError(name)
        return f"{name}-1"

    clock = iter((10.0, 22.36))
    now = lambda zone: datetime.datetime(2026, 1, 2, 23, tzinfo=zone)  # noqa: E731
    monkeypatch.setattr(prove, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(prove, "datetime", SimpleNamespace(UTC=datetime.UTC, datetime=SimpleNamespace(now=now)))
    monkeypatch.setattr(prove.importlib.metadata, "version", versions)
    monkeypatch.setattr(prove, "files_of", said.calls("files_of", text))

    async def tried(proof, files, home):
        said(proof, files is text, home.is_dir(), home.name[:14])
        homes.append(home)
        return prove.replace(proof, grade="loaded", why=f"{home}/config.json is wrong")

    homes = []
    monkeypatch.setattr(prove, "_tried", tried)
    said(prove.prove("org/m"), homes[0].exists())
    for answer in (Reply("A", prompt_tokens=30, completion_tokens=4), PlayerError("too\nlong"), EngineError("it died")):
        engine.complete = ending("complete", answer if isinstance(answer, Exception) else None, answer)
        said(asyncio.run(prove._answer(engine, "kumo choice", (message("user", "Go."),), options=("A",))))
    said.check("small_copies_tried")


class Values(list):
    """As far as it is looked at, a tensor."""

    floats, shape = False, (1, 3)

    def is_floating_point(self):
        return self.floats

    def to(self, kind):
        return f"{list(self)} as {kind}"

    def tolist(self):
        return list(self)

    def __getitem__(self, place):
        if place == (0, -1):
            return self
        found = (
            [list.__getitem__(self, each) for each in place]
            if isinstance(place, list)
            else list.__getitem__(self, place)
        )
        return Values(found) if isinstance(found, list) else found

    def float(self):
        return self

    def log_softmax(self, axis):
        assert axis == -1
        return self


def test_labels_are_compared_with_the_reference_step_by_step(said, monkeypatch, tmp_path):
    chat = (message("system", "Answer."), message("user", Dot(9), "Which?"))
    for folder, sees in (("text", False), ("sees", True)):
        said(prove._reference(SimpleNamespace(sees=sees), Path(folder)))
    monkeypatch.setattr(prove, "png", lambda picture: "PNG")
    for name in ("AutoTokenizer", "AutoProcessor"):
        made = said.calls(name, {"of": name})
        setattr(
            sys.modules["transformers"],
            name,
            Thing(said, name, from_pretrained=said.calls("from", lambda home, made=made: made)),
        )
    monkeypatch.setattr("PIL.Image.fromarray", lambda pixels: f"picture of {pixels.shape}")
    for sees, shown in ((False, chat[:1]), (True, chat[:1]), (True, chat)):
        said(prove._inputs(tmp_path, sees, shown, "PROMPT"))
    (tmp_path / "tekken.json").touch()
    said(prove._inputs(tmp_path, True, chat, "PROMPT"))
    scores = LabelScores((-0.5, -1.0, -2.0, -3.0), 0.9, argmax_is_label=True)

    async def complete(request):
        said("-> complete", request.id, request.labels, request.chat == chat)
        return Reply("A", label_scores=scores)

    async def engine_input(rendered):
        return {"prompt_token_ids": (7, 8, 9)}

    own = SimpleNamespace(rendered=lambda chat: {"prompt": "PROMPT"}, engine_input=engine_input)
    own.label_tokens = said.calls("label_tokens", [3, 1, 0, 2])
    engine = SimpleNamespace(complete=complete, _chat=own)
    reference = Values([-2.25, -1.125, -3.0, -0.125])
    floats = Values([1.5])
    floats.floats = True

    def model(**given):
        said("-> model", given)
        return SimpleNamespace(logits=reference)

    model.dtype = "float32"
    for ids, causal in (((7, 8, 9), False), ((7, 8, 9), True), ((7, 9, 8), False)):
        given = {"input_ids": Values([Values(ids)]), "mm_token_type_ids": Values([0]), "pixels": floats}
        monkeypatch.setattr(prove, "_inputs", said.calls("inputs", given))
        said.tried(
            "=", lambda causal=causal: asyncio.run(prove._label_difference(engine, model, "HOME", True, chat, causal))
        )
    for error in (None, KeyError("x")):
        known = SimpleNamespace(for_model=said.calls("for_model"))
        if error is not None:
            known = SimpleNamespace()
        sys.modules["transformers"].AutoConfig = known
        said(prove._has_config(SimpleNamespace(config={"a": 1})))
    said.check("labels_compared")


async def test_what_is_asked_of_a_small_copy(said, monkeypatch):
    shown = (message("user", Dot(3), Dot(4), "Which?"),)
    chats = {"kumo": (message("user", "Go."),), "kidgym": shown, "multistar": (message("user", Dot(5), "Odd?"),)}

    def load(group, name):
        async def first_turn(episode):
            labels = ("A", "B") if name == "multistar" else ()
            return SimpleNamespace(chat=chats[name], options=("left", "right"), labels=labels)

        made = SimpleNamespace(plan=lambda: [f"first of {name}", "second"], first_turn=first_turn)
        return said.calls(f"load {group} {name}", made)

    def pictures(chat):
        return [part.gray for each in chat for part in each.parts if isinstance(part, Dot)]

    async def answer(engine, name, chat, **given):
        said("-> answer", name, chat == chats[name.split()[0]], given)
        return f"came of {name}", name not in wrong

    async def growing(engine, picture):
        said("-> growing", picture and picture.gray)
        return "0/9 8/17", "growing" not in wrong

    async def difference(engine, model, home, sees, chat, causal=False):
        said("-> difference", engine, model, home, sees, pictures(chat), causal)
        return differences.pop(0)

    monkeypatch.setattr(prove.plugins, "load", load)
    for name, stub in (("_answer", answer), ("_growing", growing), ("_label_difference", difference)):
        monkeypatch.setattr(prove, name, stub)
    monkeypatch.setattr(prove, "_reference", said.calls("reference", "MODEL"))
    proof = prove.Proof("org/m", "untried", "today", {})
    for sees, architecture, dtype, wrong, differences in (
        (False, "Other", "float32", (), [0.001]),
        (False, "Gemma3", "float32", (), [0.0011]),
        (True, "Other", "bfloat16", (), [0.04, 0.05]),
        (True, "Other", "bfloat16", (), [0.06, 0.051]),
        (True, "Gemma3For", "bfloat16", (), [0.01, 0.05]),
        (True, "Gemma3For", "bfloat16", (), [0.01, 0.0625, 0.05]),
        (True, "Gemma3For", "bfloat16", (), [0.06, 0.5, 0.01]),
        (True, "Gemma4For", "float32", (), [0.0001, 0.5, 0.002]),
        (True, "Other", "float32", ("kidgym choice", "growing", "multistar labels"), []),
        (True, "Other", "float32", (), [0.0001]),
    ):
        files = SimpleNamespace(sees=sees, architecture=architecture)
        said(f"--- {sees} {architecture} {dtype} {wrong} {differences}")
        found = await prove._asked(proof, files, "ENGINE", "HOME", dtype)
        said(found.grade, "|", found.why, "|", found.cached, found.label_difference, found.played)
    said.check("small_copies_asked")
