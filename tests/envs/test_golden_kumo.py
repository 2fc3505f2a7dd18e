"""What small functions of KUMO say of odd games, domains and modules, on record."""

import ast
import dataclasses
import json
from pathlib import Path

from envs.kumo import exact, names, properties, split
from envs.kumo.domain import Action, State
from envs.kumo.published import checkout, literals, outcomes, source, templates
from envs.kumo.task import Task
from tests.envs.kumo_checkout import AGENT, ENV
from tests.envs.kumo_games import made_domain
from tests.golden import check_said, plain

TESTS = (
    Action("ab", "str", (State("no", ("a", "b")), State("yes", ("c",)), State("yes, too", ("c",)))),
    Action("bc", "str", (State("no", ("b", "c")), State("yes", ("a",)))),
    Action("cd", "str", (State("no", ("c", "d")), State("yes", ()))),
    Action("d", "str", (State("no", ("d",)), State("yes", ("a", "b", "c")))),
)
GAME = Task("toy", ("a", "b", "c", "d"), TESTS, ("no", "yes", "yes", "no"), "c")
HELD = properties.Properties(
    {
        "ant": {"legs": ("6",), "home": ("hill", "wood"), "mm": ("2 to 15",)},
        "bee": {"legs": ("6",), "home": ("hive",), "mm": ("8 to 20",)},
        "fly": {"home": ("house", "wood"), "mm": ("7",)},
        "elk": {"legs": ("4",), "mm": ("1500 to 2500", "9")},
        "fog": {},
    }
)


def table(states, kind="str", **more):
    """A domain's variables as they are read, with one test."""
    fields = {"Truths": ["x", "y"], "Actions": ["t"], "Outcomes": {"t": {"type": kind, "states": states}}}
    return outcomes.read_table({name: value for name, value in {**fields, **more}.items() if value is not None})


def connected(*tests, truths=6):
    """A domain of which each test can rule out these truths."""
    named = tuple("abcdefghijklmnopqrst"[:truths])
    actions = [Action(f"{n}", "str", (State("x", tuple(gone)), State("y", ()))) for n, gone in enumerate(tests)]
    return dataclasses.replace(made_domain(), truths=named, actions=tuple(actions), name="made")


def folder(name, **files):
    for path in ("domains", "tasks"):
        Path(name, path).mkdir(parents=True, exist_ok=True)
    for path, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        Path(name, path.replace("__", "/").replace("_json", ".json")).write_text(text)
    return name


def system(*changes):
    text = ENV.replace("{module}", "pond").replace("{env}", "Pond").replace("{{", "{").replace("}}", "}")
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def agent(*changes):
    text = AGENT
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def test_small_functions_say_what_is_on_record(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source._summary.cache_clear()
    source.open_domain.cache_clear()
    known = {}
    for module in (literals, outcomes, templates, checkout, source, exact, names, properties, split):
        known |= {name: value for name, value in vars(module).items() if not name.startswith("__")}
    check_said("kumo_small", {**known, **globals(), "replace": dataclasses.replace, "ast": ast}, plain)
