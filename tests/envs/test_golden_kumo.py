"""What small functions of KUMO say of odd games, domains and modules, on record."""

import argparse
import dataclasses
import json
import random
import shutil
from collections import Counter
from pathlib import Path

import gymnasium
import pytest

from envs.kumo import KumoEnv, book_reader, exact, likeness, names, properties, prose, split, structure, vocabulary
from envs.kumo.domain import Action, State
from envs.kumo.published import checkout, command, literals, outcomes, source, templates
from envs.kumo.published.command import printable
from envs.kumo.published.importing import domain_name, size_name
from envs.kumo.task import Task
from tests.envs.kumo_checkout import AGENT, EASY, ENV, FOUR, POND_TASKS, write_checkout
from tests.envs.kumo_games import made_domain
from tests.golden import check_golden, check_said, plain

TESTS = (
    Action("ab", "str", (State("no", ("a", "b")), State("yes", ("c",)), State("yes, too", ("c",)))),
    Action("bc", "str", (State("no", ("b", "c")), State("yes", ("a",)))),
    Action("cd", "str", (State("no", ("c", "d")), State("yes", ()))),
    Action("d", "str", (State("no", ("d",)), State("yes", ("a", "b", "c")))),
)
GAME = Task("toy", ("a", "b", "c", "d"), TESTS, ("no", "yes", "yes", "no"), "c")
MADE = made_domain()
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


def profile(truths="", tests="", rules=(), name="one", title=""):
    """What of a domain is compared, its names letters and its rules numbers."""
    found = likeness.Profile.of(name, title, truths.split(), tests.split())
    return dataclasses.replace(found, rules=Counter((rule,) for rule in rules))


def connected(*tests, truths=6):
    """A domain of which each test can rule out these truths."""
    named = tuple("abcdefghijklmnopqrst"[:truths])
    actions = [Action(f"{n}", "str", (State("x", tuple(gone)), State("y", ()))) for n, gone in enumerate(tests)]
    return dataclasses.replace(MADE, truths=named, actions=tuple(actions), name="made")


def folder(name, **files):
    for path in ("domains", "tasks"):
        Path(name, path).mkdir(parents=True, exist_ok=True)
    for path, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        Path(name, path.replace("__", "/").replace("_json", ".json")).write_text(text)
    return name


def changed(text, changes):
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def system(*changes):
    return changed(ENV.format(env="Pond", module="pond"), changes)


def agent(*changes):
    return changed(AGENT, changes)


def test_small_functions_say_what_is_on_record(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source._summary.cache_clear()
    source.open_domain.cache_clear()
    known = {}
    for module in (literals, outcomes, templates, checkout, source, exact, names, properties, split):
        known |= {name: value for name, value in vars(module).items() if not name.startswith("__")}
    modules = {
        "book_reader": book_reader,
        "likeness": likeness,
        "prose": prose,
        "structure": structure,
        "vocabulary": vocabulary,
        "random": random,
    }
    check_said("kumo_small", {**known, **globals(), **modules, "replace": dataclasses.replace}, plain)


def test_an_odd_checkout_is_imported_as_on_record(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    root = write_checkout(Path("odd"))
    env, results = root / "env", root / "results/search_results"
    pond = (env / "pond_env.py").read_text()
    for name, module in (
        ("LakeEnv", "pond_data"),
        ("LAKEEnv", "pond_data"),
        ("IdleEnv", "pond_data"),
        ("FarEnv", "Pond"),
    ):
        (env / f"{name}_env.py").write_text(pond.replace("PondEnv", name).replace("pond_data", module))
    for name in ("LakeEnv", "LAKEEnv", "FarEnv"):
        shutil.copytree(env / "PondEnv", env / name)
    (env / "bad_env.py").write_bytes(b"\xff")
    (env / "tale_env.py").mkdir()
    (env / "PondEnv" / f"{size_name(12, 16)}.jsonl").write_text("\n[1]\n")
    lines = [*POND_TASKS, {**POND_TASKS[0], "seed": 5, "truths": FOUR[:3], "valid_truth": "Otter"}, POND_TASKS[1]]
    lines += [{**POND_TASKS[2], "seed": 11}, {**POND_TASKS[2], "seed": 12}]
    tasks = "\n \n".join(map(json.dumps, lines))
    (env / "PondEnv" / f"{EASY}.jsonl").write_text(f"{tasks}\nnot a task\n")
    books = env / "PondEnv/knowledge_book" / EASY
    (books / "seed=0.txt").write_text("x" * 499)
    (books / "seed=1.txt").write_text("x" * 500)
    (books / "seed=11.txt").write_text("")
    counts = [{"seed": "1", "trajectories": [{"actions": ["a", {}]}]}, {"seed": 2, "trajectories": []}, {"seed": 0}, []]
    (results / "PondEnv" / EASY / "eval_times=10.jsonl").write_text("\n\n".join(map(json.dumps, counts)) + "\n{")
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    said = [f"ends with {command.main(parser.parse_args(['odd', 'kumo']))}", *capsys.readouterr()]
    said += [f"ends with {command.main(parser.parse_args(['odd/env', 'kumo']))}", *capsys.readouterr()]
    summary = json.loads(Path("kumo/benchmark.json").read_text())
    said += [json.dumps(each) for each in summary.pop("warnings")] + [json.dumps(summary)]
    for line in Path("kumo/tasks/pond.jsonl").read_text().splitlines():
        fields = json.loads(line)
        said.append(f"{fields['task']['seed']}: {len(fields['book'])} characters, {fields['optimum']}")
    shutil.rmtree(env)
    said += [f"ends with {command.main(parser.parse_args(['odd', 'kumo']))}", *capsys.readouterr()]
    env.mkdir()
    said += [f"ends with {command.main(parser.parse_args(['odd', 'kumo']))}", *capsys.readouterr()]
    said += [repr(printable("a\x1b[2J\u202eé\n'")), *map(domain_name, ("A1BEnv", "ABc2dEnv", "EnvEnv", "XEnvironment"))]
    check_golden("kumo_odd_import", "\n".join(filter(None, said)))


def test_games_are_played_in_gymnasium_as_on_record():
    numbers = (State((0, 2.5), ("a",)), State((3, 1200), ("b",)), State((-4, -0.5), ()))
    acts = (Action("n", "float", numbers, "drops"), *TESTS[:2])
    one = Task("toy", ("a", "b", "c"), acts, (1, "no", "no"), "c")
    two = dataclasses.replace(
        one, observations=(1200, "yes", "yes"), valid_truth="b", also_valid=("a",), accepted=("a",)
    )
    played = KumoEnv([one, two], budget=3, render_mode="ansi")
    shapes = {name: space.shape for name, space in played.observation_space.items()}
    said = [f"{played.action_space.n} {shapes}"]

    def tell(step):
        seen, *rest = step
        rest[-1] = rest[-1]["text"]
        said.append(
            " ".join(f"{name} {value.tolist()}" for name, value in seen.items()) + f" {rest}\n{played.render()}"
        )

    for index, moves in ((0, (0, 0, 1)), (1, (2, 0, 3)), (0, (4,)), (0, (2, 1, 5)), (1, (4, 0)), (1, (-1, 6))):
        tell(played.reset(options={"index": index}))
        for move in moves:
            try:
                tell(played.step(move))
            except gymnasium.error.Error as error:
                said.append(f"{type(error).__name__}: {error}")
    said += [str(KumoEnv([one]).render()), plain(one.after(["n"])), plain(two.after([])), plain(one.shown(["bc", "n"]))]
    said += [json.dumps(each.to_json()) for each in (one, two)]
    said += [str(Task.from_json(each.to_json()) == each) for each in (one, two)]
    for tasks in ([], [one, GAME, one]):
        with pytest.raises(ValueError, match="tasks of one size") as refused:
            KumoEnv(tasks)
        said.append(str(refused.value))
    for act in (
        acts[0],
        Action("y", "float", (State((1, 1999), ()),)),
        Action("z", "float", (State((0.25, 10000), ()),)),
    ):
        told = [
            (act.number_text(number), act.measure_text(number))
            for number in (0, -0.0, 1, -1, 1.0, 1999, 12345.678, 1e-7)
        ]
        said.append(f"{act.ends} {act.decimals} {told}")
    for unit in ("drops", "classes per day", "boxes", "glass", "kg", "%", "matches/s", "days", "s", "Hz"):
        whole = Action("u", "float", (State((1, 9), ()),), unit)
        said.append(f"{whole.measure_text(1)}, {whole.measure_text(2)}")
    check_golden("kumo_gymnasium", "\n".join(said))
