"""What is known of models and of their caches before anything is loaded, on record in ``tests/golden``."""

import asyncio
import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from cluster.engines.base import Capabilities
from cluster.errors import UserError
from cluster.models import cached_share, hardware, hub, memory, mistral_files, pictures, proofs, prove, shrink, table
from cluster.models.hub import Files, files_of
from cluster.models.table import Gpu, Shape, rows
from cluster.prefix_cache import beginnings, block_size, predict
from evals.tables import Table
from evals.types import message
from tests.golden import check_said, plain
from tests.toy import ToySuite

MODULES = (
    prove,
    cached_share,
    hardware,
    hub,
    memory,
    mistral_files,
    pictures,
    shrink,
    table,
    beginnings,
    block_size,
    predict,
)
SIZES = ((1, 1), (28, 28), (500, 400), (576, 576), (1000, 90), (90, 1000), (4000, 3000))
RULES = {
    f"{family.pictures.rule} of {name}": family.pictures for name, family in table.families().items() if family.pictures
}


def shown(value) -> str:
    if isinstance(value, Table):
        lines = [
            value.title,
            " | ".join(value.columns),
            *(" | ".join(map(plain, row)) for row in value.rows),
            *value.notes,
        ]
        return "\n".join(lines)
    return value if isinstance(value, str) else plain(value)


def counted(rule) -> str:
    return " ".join(str(RULES[rule].tokens(*size)) for size in SIZES)


def fits(name, gpu, tokens=32768, **asked) -> str:
    fit = memory.fit_on(rows()[name], table.gpus()[gpu], tokens, **asked)
    return "does not fit" if fit is None else f"{plain(fit)} {fit.replicas}"


def model(**fields):
    """The row of a model with other fields."""
    shape = dataclasses.replace(rows()["qwen2_5_7b"].shape, **fields.pop("shape", {}))
    return dataclasses.replace(rows()["qwen2_5_7b"], shape=shape, **fields)


FROM_HUB = hub._from_hub
SMALL = Gpu(memory=10, tflops=100, bandwidth=1)
CONFIG = {
    "architectures": ["Qwen2ForCausalLM"],
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "hidden_size": 512,
    "intermediate_size": 1000,
    "vocab_size": 10_000,
}


def files(generation=None, index=None, **config) -> Files:
    return Files("a/b", "here", {**CONFIG, **config}, generation or {}, {}, index or {})


def folder(name, **contents) -> str:
    """A folder with these files of JSON."""
    Path(name).mkdir()
    for file, content in contents.items():
        Path(name, f"{file}.json").write_text(json.dumps(content))
    return name


def looked_for(*asked, cache=(), offered=(), call=files_of, **how) -> str:
    """Which files were asked of the hub and of its cache, and which of them were found."""
    said = []

    def download(id, name, revision, local_files_only):
        said.append(f"{name} of {id} {revision} {'cached' if local_files_only else 'offered'}")
        if name not in (cache if local_files_only else offered):
            raise LocalEntryNotFoundError("x")
        path = Path("of_hub" if not local_files_only else "of_cache", name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"of": name}))
        return str(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hub, "_from_hub", FROM_HUB)
        patch.setattr(huggingface_hub, "hf_hub_download", download)
        try:
            found = plain(vars(call(*asked, **how) or SimpleNamespace()))
        except UserError as error:
            found = str(error)
    return "\n".join([*said, found])


def graded(name, **grades) -> str:
    """How far a model came, and as the table prints it, where these models were tried."""
    with pytest.MonkeyPatch.context() as patch:
        known = {rows()[row].id: proofs.Proof(rows()[row].id, grade, "today", {}) for row, grade in grades.items()}
        patch.setattr(proofs, "proofs", lambda: known)
        found, own = proofs.proof_of(rows()[name])
        return f"{found and found.id} {own} {proofs.grade_of(rows()[name])}"


PROOF = proofs.Proof("b/c", "loaded", "2026-01-01", {"vllm": "1", "torch": "2"}, "here", {"kumo, text": "came"})


def recorded(*several) -> str:
    """The file of records after some of them."""
    for proof in several:
        path = proofs.record(proof, Path("new", "records.json"))
    assert path == Path("new", "records.json")
    return path.read_text()


def recorded_here() -> str:
    """What is known of a model by one's own records, and where these are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proofs, "_own_file", lambda: Path("own", "proofs.json"))
        found = [str(proofs.record(PROOF)), plain(proofs.proofs()["b/c"])]
    proofs.proofs.cache_clear()
    return "\n".join(found)


def proved(name, proof) -> Table:
    with pytest.MonkeyPatch.context() as patch:
        asked = []
        patch.setattr(prove, "prove", lambda id: asked.append(id) or proof)
        patch.setattr(prove, "record", lambda proof: Path("where", *asked))
        return prove.prove_here(name)


async def _growing(picture) -> str:
    asked = []

    async def complete(request):
        asked.append(request)
        if len(asked) == 7:
            raise prove.PlayerError("too  long\n")
        return SimpleNamespace(cached_tokens=len(asked), prompt_tokens=10 * len(asked))

    found = [await prove._growing(SimpleNamespace(complete=complete), picture) for _ in range(2)]
    last = asked[4]
    said = [(each.role, [str(part)[:48] for part in each.parts]) for each in last.chat]
    return f"{found} {last.id} {said}"


def told(**found) -> str:
    """What is made of a model's files."""
    row = hub.model_from(files(**found))
    return f"{plain(row.total)} {row.family.name} {plain(row.shape)} {row.engine} {dict(row.sampling)}"


def served(cache, *prompts) -> list:
    return [cache.ask(prompt) for prompt in prompts]


def beginning(*lengths, own=()):
    """A prompt that begins like others: 0, 1, 2, ... and then numbers of its own."""
    return [*range(lengths[0]), *own]


def place(offset, length):
    return SimpleNamespace(offset=offset, length=length)


PICTURES = {
    "prompt_token_ids": list(range(20)),
    "mm_placeholders": {"image": [place(2, 4), place(8, 4)], "audio": [place(14, 2)]},
    "mm_hashes": {"image": ["a", "b"], "audio": ["c"]},
    "mm_kwargs": {"image": [1, 2], "audio": [3]},
}


async def _stored(settings, prompts) -> list:
    sent, known = [], beginnings.SharedBeginnings(*settings)

    async def send(prompt):
        sent.append(len(prompt["prompt_token_ids"]))
        await asyncio.sleep(0)
        raise ValueError("the engine will meet it itself")

    for together in prompts:
        await asyncio.gather(*(known.store({"prompt_token_ids": tokens}, send) for tokens in together))
        sent.append("-")
    return sent


def stored(settings, *prompts) -> list:
    """Lengths of what is sent before prompts, some of which come together."""
    return asyncio.run(_stored(settings, prompts))


def watched(caplog, hybrid, *seen) -> str:
    caplog.clear()
    watch = beginnings.HitWatch(128, hybrid=hybrid)
    for number, prompt_tokens, cached in seen:
        for _ in range(number):
            watch.saw(prompt_tokens, cached)
    return " / ".join(record.getMessage() for record in caplog.records) or "nothing"


class Episode(SimpleNamespace):
    """As far as a sample looks at it."""


def plan(tasks, games, repeats=1):
    """Episodes of some tasks, games and repeats, in the order of a plan."""
    return [
        Episode(task=f"t{task}", level="", index=game, repeat=repeat)
        for game in range(games)
        for task in range(tasks)
        for repeat in range(repeats)
    ]


def looked_at(*begins) -> list:
    """Prompts of games whose first turns are these, or errors."""

    async def first_turn(begin):
        if isinstance(begin, Exception):
            raise begin
        return begin

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            cached_share, "_sample", lambda plan: [(begin, number % 2 == 0) for number, begin in enumerate(plan)]
        )
        patch.setattr(cached_share, "_prompts_of", lambda suite, begin: [([begin], [1]), ([begin, begin], [2])])
        return cached_share._prompts_of_sample(SimpleNamespace(first_turn=first_turn), begins)


def played_by(**ends) -> str:
    """Who plays an episode so that its prompts are known; each has said as much as its name is long."""
    said = []

    async def play(suite, episode, listener):
        name = type(listener._player).__name__.removesuffix("Player").lower()
        said.append(name)
        listener.heard.append(((message("user", "Go."),), name))
        if isinstance(ends[name], Exception):
            raise ends[name]
        return SimpleNamespace(outcome=ends[name])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cached_share, "play_episode", play)
        found = cached_share._prompts_of(None, None)
        return f"{said} {[(len(prompt), len(reply)) for prompt, reply in found]}"


def sampled(episodes) -> str:
    found = [f"{each.task}/{each.index}/{each.repeat}{'*' * counts}" for each, counts in cached_share._sample(episodes)]
    return " ".join(found)


@pytest.mark.parametrize("text", ["numbers", "files", "caches"])
def test_models_are_known_as_on_record(text, caplog, monkeypatch, tmp_path):
    monkeypatch.setattr(hub, "_from_hub", lambda id, revision, offline: None)
    monkeypatch.chdir(tmp_path)
    hub.known.cache_clear()  # folders of a name may have been looked for before they were there
    named = {name: value for module in MODULES for name, value in vars(module).items() if not name.startswith("__")}
    more = {
        "caplog": caplog,
        "message": message,
        "Capabilities": Capabilities,
        "Shape": Shape,
        "ToySuite": ToySuite,
        "dataclasses": dataclasses,
    }
    check_said(f"models_{text}", {**named, **more, **globals()}, shown)
