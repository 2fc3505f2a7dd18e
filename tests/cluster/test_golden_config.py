"""What configurations become, and with which words they are refused, as on record in ``tests/golden``."""

import functools
import json
import os
from types import SimpleNamespace
from typing import Literal

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigTypeError

from cluster.config import compose, contents, keys, plan, registry, sections, stored
from cluster.config import model as models
from cluster.config.helps import helps_of, settable
from cluster.config.model import ReplicaNeeds
from cluster.config.settings import check_environment, settings_from_config
from cluster.engines.base import Capabilities, Sampling
from evals.suite import Needs
from tests.golden import plain
from tests.said import Said

GAMES = {"type": "kumo", "domains": ["medical"], "difficulties": ["easy"], "tasks_per_domain": 3, "repeats": 1}
MODEL = {"name": "m", "engine": {"type": "simulated"}, "sampling": {"max_tokens": 9}, "replica": {"gpus": 0, "cpus": 1}}
CONFIG = {"suite": GAMES, "model": MODEL, "cluster": {}, "tracker": None, "decoding": "free", "stop": None}
CONFIG |= {"history": {"reasoning": "dropped"}, "deterministic": False, "baselines": [], "order": "auto", "shard": None}
CONFIG |= {"retry_failed": False, "strict": False, "preregistration": None, "name": None, "run_dir": None}
PAID = {"type": "openai", "model": "org/x 7", "base_url": "http://127.0.0.1:9/v1", "prompt_price": 1.5, "spend_cap": 3}
PRECISE = {"kind": "precise", "precision": 0.1}


def settings_of(change):
    """Settings with other values at some places, in a line; what is removed is None of a key that ends in a tilde."""
    config = json.loads(json.dumps(CONFIG))
    for place, value in change.items():
        *above, last = place.split(".")
        section = config
        for name in above:
            section = section[name]
        if last.endswith("~"):
            del section[last[:-1]]
        else:
            section[last] = value
    found = settings_from_config(OmegaConf.create(config))
    told = {"folder": str(found.run_dir), "players": {}, "model": found.model, "cluster": found.cluster}
    for episode in found.plan:
        told["players"][episode.player] = told["players"].get(episode.player, 0) + 1
    names = ("tracker", "decoding", "retry_failed", "strict", "stop", "preregistration", "balanced")
    told |= {name: getattr(found, name) for name in names if getattr(found, name)}
    if "model.engine" in change:
        told["engine as written"] = OmegaConf.create(found.config).model.engine
    return plain(told) + ("\n" + found.config if not change else "")


def test_settings(capsys):
    said = Said(capsys)
    for change in (
        *({}, {"order": "balanced"}, {"order": "longest_first", "stop": PRECISE}, {"stop": PRECISE}, {"order": "x"}),
        *(
            {"shard": "1/2"},
            {"shard": "2/2"},
            {"shard": "9/9"},
            {"shard": "x"},
            {"run_dir": ""},
            {"run_dir": 5},
            {"run_dir": 0},
        ),
        *({"run_dir": "a/b"}, {"model.name": "a/b c"}, {"model.name": ""}, {"model.name": 5}, {"name": ""}),
        *({"name": " a"}, {"name": "a" * 60}, {"name": "a" * 61}, {"name": "a\nb"}, {"preregistration": "p.json"}),
        *({"preregistration": ""}, {"tracker": {}}, {"tracker": {"type": "wandb", "project": "p", "tags": ["t"]}}),
        *({"tracker": {"type": "x"}}, {"tracker": {"type": "wandb", "projekt": "p"}}, {"tracker": {"project": "p"}}),
        *({"baselines": ["random", "oracle"]}, {"baselines": ["orcale"]}, {"baselines": "random"}, {"baselines": None}),
        *({"model.name": "oracle"}, {"model.engine": None}, {"model.engine": None, "model.name": "oracle"}),
        *(
            {"model.engine": None, "model.name": "human"},
            {"model.name": "human"},
            {"model.name": "human-a"},
            {"decoding": "choice"},
        ),
        *({"model.engine": "vllm"}, {"model.engine.type": "nope"}, {"model.engine.sped": 1}, {"model.engine.type": 3}),
        *(
            {"model.engine": {**PAID, "headers": None}},
            {"model.engine": PAID, "cluster": {"replicas": "fit"}},
            {"model.x": 1},
        ),
        *({"model.engine": PAID, "cluster": {"replicas": 2}}, {"model.engine": PAID, "decoding": "choice"}),
        *({"cluster": None}, {"cluster": {"replicas": 0}}, {"cluster": {"replicas": "fit", "live": False}}),
        *({"cluster": {"commit_seconds": 0}}, {"cluster": {"runers": 1}}, {"cluster": [1]}, {"cluster": "local"}),
        *({"stop": {"most": 50}}, {"stop": {**PRECISE, "measure": "x"}}, {"stop": {"kind": "decided"}}, {"stop": 3}),
        *({"stop": {**PRECISE, "measure": "steps"}}, {"stop": {**PRECISE, "measure": "steps", "bounds": [0, 9]}}),
        *({"stop": {**PRECISE, "precision": 2}}, {"retry_failed": True, "strict": True}, {"strict": "yes"}),
        *({"model.engine.api_key": "sk-1234567890abcdef"}, {"suite.x": "${name}"}, {"name": "${oc.env:HOME}"}),
        *({"order~": None}, {"history~": None, "shard~": None}, {"history": {"reasoning": "kept"}}, {"history": 1}),
        *({"history": {"reasoning": "x"}}, {"deterministic": True}, {"model.chat_template_kwargs": {"a": 1}}),
        *({"model.chat_template_kwargs": [1]}, {"model.system_role": "user"}, {"model.sampling": {"tempo": 1}}),
        *({"model.sampling": {"stop": ["a"], "top_k": 4}}, {"model.sampling": None}, {"model.replica": {"gpus": -1}}),
        *({"model.replica": {"gpus": 2, "nodes": 3}}, {"model.sampling": {"temperature": "hot"}}, {"model": None}),
        *({"suite.type": "nope"}, {"suite": None}, {"suite.repeats": 0}, {"suite.x": 1}),
        *({"suite": {"type": "bundle", "name": "both", "suites": [GAMES, GAMES]}}, {"name": "a", "model.name": "é"}),
    ):
        said.tried(change, settings_of, change)
    said.check("settings")


def test_models(capsys, monkeypatch, tmp_path):
    said = Said(capsys, tmp_path)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "file").write_text("same")
    (tmp_path / "twin").write_text("same")
    vllm = {"type": "vllm", "model": "org/x"}
    given = {"sampling": {"max_tokens": 9, "top_k": 3}, "chat_template_kwargs": {"a": 1}, "system_role": "user"}
    root = {"history": {"reasoning": "kept"}, "deterministic": True}
    for change, around in (
        *(({}, {}), (given, {}), ({}, root), ({"chat_template_kwargs": {}, "system_role": ""}, {"history": None})),
        ({"engine": {**vllm, "tensor_parallel_size": 2}}, {}),
        ({"engine": {**vllm, "tensor_parallel_size": 2}, "replica": {"gpus": 2}}, {}),
        ({"engine": {**vllm, "tensor_parallel_size": 4}, "replica": {"gpus": 2, "nodes": 2}}, {}),
        ({"engine": {**vllm, "chat_template": str(tmp_path / "none")}}, {}),
        *(({"sampling": 3}, {}), ({"replica": 3}, {}), ({}, {"history": {"reasonings": "kept"}}), ({"x": 1}, {})),
    ):
        config = {"name": "m", "engine": vllm, **change}
        said.tried((change, around), lambda config=config, around=around: plain(models.make_model(config, around)))
    monkeypatch.setattr(models, "make", said.calls("make", "an engine"))
    simulated = {"type": "simulated", "max_num_seqs": 4}
    for engine, commit in (
        *((None, ""), (simulated, ""), (simulated, "c0ffee"), ({**simulated, "max_num_seqs": 5}, ""), (PAID, "")),
        *(({**simulated, "tail": 2.0}, ""), ({**vllm, "deterministic": True, "keeps_reasoning": True}, "c0ffee")),
        *(({**vllm, "vllm": {"tokenizer": str(tmp_path / name)}}, "") for name in ("file", "twin")),
    ):
        model = models.ModelSettings("m", engine, Sampling(max_tokens=3), ReplicaNeeds(), commit)
        said(engine, model.fingerprint, model.metered, model.engine_class.__name__ if engine else "")
        said.tried("can", lambda model=model: plain(model.capabilities if model.engine else None))
        said(model.make_engine())
    said.check("models")


def test_capabilities(capsys):
    said = Said(capsys)
    can = {"pictures": 2, "options": True, "label_scores": True, "context": 100}
    for needs, able, decoding in (
        *(({"pictures": 2}, {}, "choice"), ({"pictures": 3}, {}, "free"), ({"pictures": 1}, {"pictures": 0}, "free")),
        *(({}, {"options": False}, "free"), ({}, {"options": False}, "choice"), ({"label_scores": True}, {}, "free")),
        ({"label_scores": True}, {"label_scores": False, "without_labels": "it does not tell them"}, "free"),
        *(({"context": 100}, {}, "free"), ({"context": 1101}, {"context": 1100}, "free")),
        ({"context": 101}, {"context": None}, "free"),
    ):
        parts = [SimpleNamespace(name="one", needs=Needs()), SimpleNamespace(name="two", needs=Needs(**needs))]
        model = SimpleNamespace(name="m", capabilities=Capabilities(**{**can, **able}))
        said.tried((needs, able, decoding), plan._check_capabilities, SimpleNamespace(parts=parts), model, decoding)
    for message in ("suite.x=1: no", "no x"):
        said(repr(plan._about_suite(ValueError(message))))
    said.check("capabilities")


def test_contents(capsys, tmp_path, monkeypatch):
    said = Said(capsys, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(contents, "WHOLE", 100)
    monkeypatch.setattr(contents, "PIECES", 3)
    monkeypatch.setattr(contents, "PIECE", 4)
    for folder, names in {"a": "config.json w.safetensors", "b": "config.json w.safetensors", "c": "x.txt"}.items():
        (tmp_path / folder).mkdir()
        for name in names.split():
            (tmp_path / folder / name).write_text(f"{name} in {'c' if folder == 'c' else 'a'}" * 9)
    for name in ("README.txt", "LICENSE.json", ".x.json", "notes.md", "x.PT"):
        (tmp_path / "b" / name).write_text("unread")
    for name in ("notes.md", ".hidden", "100", "101"):
        (tmp_path / name).write_text("n" * int(name) if name.isdigit() else name)
    (tmp_path / "102").write_text("n" * 49 + "m" + "n" * 52)
    long = "d" * 251
    for value in (
        *("", "a", "b", "c", "./a", "./c", "c/x.txt", "a/none", "tiny", "./tiny", "auto", "./notes.md", "./.hidden"),
        *("./100", "./101", "./102", 5, None, True, ["./a", {"x": "./c"}], ("./a", "z"), "x\0/y", "/\0", long + "/a"),
        *("/" + long[1:], "./" + long, [], {}, "/nowhere/x", "https://a/b", str(tmp_path / "a"), str(tmp_path / "z")),
    ):
        path = contents.local_path(value)
        said.tried(ascii((value, path and str(path))), lambda value=value: ascii(contents.by_content(value)))
        contents._hash.cache_clear()
    monkeypatch.setattr(
        contents, "_hash", lambda files: (_ for _ in ()).throw(PermissionError(13, "Permission denied"))
    )
    said.tried("unreadable", contents.by_content, {"x": "./a"})
    for value in ({}, {"x": "/nowhere/y"}, {"a": 1, "b": {"c": "/", "d": "/no", "e": "/nor"}}, {"x": "no/y"}, [1]):
        said(value, repr(contents.missing_path("model", value)))
    for engine, address in (("/no", None), ("/no", "auto"), (str(tmp_path), None), (None, None)):
        kind = SimpleNamespace(check_environment=said.calls("check"), reads_files=True)
        model = SimpleNamespace(engine=engine and {"model": engine}, engine_class=kind)
        said.tried(address, check_environment, SimpleNamespace(model=model, cluster=SimpleNamespace(address=address)))
        kind.reads_files = False
        said.tried(
            "none read", check_environment, SimpleNamespace(model=model, cluster=SimpleNamespace(address=address))
        )
    said.check("contents")


class Documented:
    """A class.

    Attributes:
        one: first of
            all, with ``code``.
        two: second.
    """

    three: int = 3
    """the third:
    two lines."""
    four: Literal["a", "b"] = "a"


class Further(Documented):
    def __init__(
        self, two: int, four: bool | Literal["x"] | None = None, sampling: object = None, extra: object = None
    ):
        """Make one.

        Args:
            two: again.
            four: of the constructor.

        Raises:
            ValueError: never.
        """


def test_keys(capsys, monkeypatch):
    said = Said(capsys)
    said(helps_of(Documented), helps_of(Further), helps_of(SimpleNamespace), [*settable(Further)])
    monkeypatch.setattr(keys, "helps_of", functools.cache(helps_of))
    for kind in (bool, int, Literal["a", 1, "b"], bool | Literal["x"] | None, list[Literal["y"]], "text", str | int):
        said(kind, keys._choices(kind))
    for group, names in {
        "cluster": ["local"],
        "tracker": ["wandb", "none"],
        "suite": ["kumo", "demo"],
        "model": ["oracle", "simulated", "qwen2_5_7b"],
    }.items():
        options = keys.options_of(group)
        said(group, sorted(options) if group != "model" else sorted(each for each in options if each < "d"))
        for name in names:
            said(group, name, sorted(keys.keys_of(group, name)), keys._registered_name(group, name))
            schema = json.dumps(keys.schema(group, name), sort_keys=True)
            if name in ("local", "none", "oracle", "wandb", "simulated", "demo"):
                found = json.loads(schema)
                for section in (found, *found.get("properties", {}).values()):
                    for each in section.get("properties", {}).values():
                        each.pop("description", None)
                said(json.dumps(found, indent=1, sort_keys=True))
    for section in registry.GROUPS:
        names = registry.names_without_file(section)
        said(section, names, [registry.default_config(section, name) for name in names])
    said(registry.default_config("model.engine", "simulated"), registry.default_config("tracker", "wandb"))
    said(plain(registry._plain([(1, (2,)), {"a": (3,)}, "x"])))
    for section, config in (
        *(
            ("suite", {}),
            ("suite", {"type": "nope"}),
            ("suite", {"type": ["kumo"]}),
            ("model.engine", {"type": "kumo"}),
        ),
        *(("suite", {"type": "kumo", "x": 1}), ("tracker", {"type": "wandb", "project": "p", "episodes": -1})),
        ("model.engine", {"type": "simulated", "sampling": 1}),
    ):
        said.tried((section, config), registry.check_section, section, config, registry.GIVEN[:1])
    for found in (classmethod(lambda cls: {"a": int}), classmethod(lambda cls: 3), frozenset("a"), lambda self: {}):
        cls = type("Odd", (), {"sampling_keys": found, "__module__": "odd"})
        said.tried("stated", registry.stated_keys, cls, "sampling_keys")
    passing = type("Passing", (), {"__init__": lambda self, any_of=None, one_of=None: None})
    passing.keys_within = classmethod(lambda cls: {"any_of": {}, "one_of": {"a": int}})
    for values in ({"any_of": {"b": "c"}}, {"one_of": {"a": 1}}, {"one_of": {"b": 1}}, {"one_of": {"a": "x"}}):
        for section in ("model.engine", "suite"):
            said.tried((section, values), registry._checked, section, passing, values, ())
    for values in ({"gpus": 2}, {"labels": {"a": 1}}, {"gpu": 2}, [1], None):
        said.tried(values, sections.made_section, "model.replica", ReplicaNeeds, values)
    said.check("keys")


def test_overrides(capsys, monkeypatch):
    said = Said(capsys)
    written = [
        "against=x",
        "precision=.1",
        "delta=2",
        "most=3",
        "suite.a=1",
        "model.engine.b=2",
        "cluster.c.d=3",
        "stop.e",
    ]
    written += ["tracker.x=1", "stop.most=2", "decoding=free", "history.reasoning=kept", "suite=kumo", "+suite.a=1"]
    written += [
        "run_dir=2026_11",
        "run_dir=runs/5",
        "run_dir=-5",
        "run_dir=+.5a",
        "run_dir=1.10",
        "run_dir=5 6",
        "xrun_dir=5",
        "suites.a=1",
    ]
    said(compose.with_new_keys(written))
    kept = {}
    node = lambda group, name, node: kept.__setitem__(f"{group}/{name}", node)  # noqa: E731
    with monkeypatch.context() as patch:
        patch.setattr(compose.ConfigStore, "instance", lambda: SimpleNamespace(store=node))
        patch.setattr(compose, "selectable", lambda overrides: {"a": {"of": overrides}, "b-1.c": {"of": "b"}})
        patch.setattr(compose, "names_without_file", lambda section: [f"{section}_{n}" for n in range(2)])
        patch.setattr(compose, "default_config", lambda section, name: {"default": name})
        for words, further in (
            ([], ()),
            (["model=a"], ("model=b-1.c",)),
            (["suite=suite_1"], ()),
            (["x=model.engine_0"], ()),
        ):
            compose.offer_plugins(words, further)
            said(words, further, kept)
        compose.offer_plugins(["hydra.searchpath=[x]"])
        said("searched", kept)
    for text in ("a", "${a}", "\\${a}", "\\\\${a} ${b}", "\\a", ["${x}", ("${y}",)], {"a": {"b": "$ {${"}}, 5, None):
        said(text, "->", compose.as_written(text))
    for overrides in (["suite=[a,b]"], ["model={a:1}"], ["stop=[x]"], ["\ud83d"]):
        said.tried(ascii(overrides), compose.compose_config, overrides)
    options = "Could not find 'suite/kumu'\n\nAvailable options in 'suite':\n\tdemo\n\tkidgym\n\tkumo\nConfig search path:\n\tx"
    merged = ValueError("Error merging override ++suite.a=secret")
    merged.__cause__ = ConfigTypeError("Cannot merge DictConfig with ListConfig")
    bare = ValueError("Error merging override model.engine.x=secret")
    for error in (
        *(ValueError(options), ValueError(options.replace("kumu", "xyz")), merged, bare),
        *(
            ValueError("Could not override 'suite'.\nKey"),
            ValueError("Could not override 'ordr'.\nKey is not in struct"),
        ),
        ValueError("Could not override 'zzz'."),
        ValueError(
            "one\n  full_key: x\n\n  To append to your config use +\nobject_type=dict\n two \nreference_type=Any"
        ),
    ):
        said(type(error).__name__, compose._composition_error(error))
    for why in (
        None,
        ValueError(""),
        ValueError("Cannot merge ListConfig with DictConfig"),
        ValueError("Cannot merge"),
    ):
        said(compose._misfit(why))
    monkeypatch.setenv("SECRET", "secret")
    for config in (
        *(
            {"a": "???"},
            {"a": {"b": ["???"]}},
            {"a": "${b.c}", "b": {"c": "???"}},
            {"a": "${b}"},
            {"a": "${oc.env:SECRET}"},
        ),
        {"a": "${b}", "b": [1, "x"]},
    ):
        said.tried(config, compose.plain_values, DictConfig(config))
    assert OmegaConf.create({"a": "${oc.env:SECRET}"}).a == os.environ["SECRET"], "elsewhere it may be read"
    config = {"suite": {"type": "kumo", "name": "${x}", "domains": ["a"]}, "model": {"name": "m", "engine": None}}
    for names, overrides in (
        *(
            (["suite"], []),
            (["suite", "model"], ["model.name=n"]),
            (["suite"], ["model.name=n"]),
            (["suite"], ["suite"]),
        ),
        *((["suite"], ["suite=x"]), (["suite"], ["suite.domains={b: 1}"]), (["suite"], ["suite.new=1"])),
        *((["suite"], ["suite.name=[1"]), (["suite"], ["suite.name=${y}", "suite.domains=[c, 2]"]), (["other"], [])),
    ):
        said.tried((names, overrides), stored.stored_sections, "RUN", config, names, overrides)
    said([stored._holds(*each) for each in (("a.b", "a.b"), ("a", "a.b"), ("a.b", "a.bc"), ("a.b.c", "a.b"))])
    given = SimpleNamespace(given_again=frozenset({"python", "folder", "unset"}))
    defaults = {name: SimpleNamespace(default="d") for name in ("python", "folder", "unset", "free")}
    monkeypatch.setattr(stored, "class_of", said.calls("class of", lambda kind, section: given))
    monkeypatch.setattr(stored, "settings_of", lambda cls: defaults)
    part = {"type": "t", "python": "p", "folder": "d", "free": "f", "unset": ""}
    config = {"suite": {"suites": [{}, {**part, "suites": [part]}, 5]}, "model": {"engine": {**part, "folder": "f"}}}
    for overrides in ([], ["suite.suites.1.python=p", "suite.suites.1.suites.0.python=q", "model.engine={}"]):
        said.tried(overrides, stored.stored_sections, "RUN", config, ["suite", "model"], overrides)
    for model in (None, [], {"engine": None}):
        said(stored.stored_sections("RUN", {"model": model}, ["model"], []))
    said.check("overrides")
