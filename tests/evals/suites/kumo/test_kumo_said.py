"""What small functions of KUMO say of texts and of games that can be worked out by hand, as on record."""

import dataclasses
import itertools
import math
import random
from collections import Counter
from types import SimpleNamespace

from envs.kumo import Action, OptimalSearch, State, load_domain
from evals.presentation import Presentation
from evals.suites.kumo import (
    KumoSuite,
    diagnose,
    features,
    figures,
    import_transcripts,
    judge,
    levels,
    memory,
    optima,
    presentation,
    prompts,
    published,
    searched_game,
    searching,
    shortcuts,
    show,
    validate,
)
from evals.suites.kumo.lab.analysis import correlation, graphs
from evals.suites.kumo.lab.analysis.counts import counts_table
from evals.suites.kumo.lab.pipeline import configure, dialogue, items, model_text, proposals, reading, repair, tables
from evals.suites.kumo.lab.trajectories import reasons
from evals.suites.kumo.likely import KumoLikelySuite, chances
from evals.suites.kumo.repeats import Run
from tests.envs.kumo_games import random_game
from tests.evals.suites.kumo.test_kumo_judge import GAME, TWO
from tests.golden import check_golden, check_said, plain

EPISODE = KumoSuite(domains="medical", difficulties="easy", tasks_per_domain=1, repeats=1).plan()[0]
COUNTED = " ".join(map(str, range(900)))
"""A text that does not repeat itself."""
WEIGHT = Action("weigh", "float", (State((0.0, 2.5), ("a",)), State((3.0, 9.0), ("b", "c")), State((10.0, 12.0), ())))
NUMBERS = dataclasses.replace(
    GAME, actions=(WEIGHT, *GAME.actions[1:3]), observations=(4.25, "s1", "s1"), valid_truth="a"
)
GAMES = {"one": GAME, "two": TWO, "numbers": NUMBERS, "nine": random_game(random.Random(4), 9, 4, 3)}
MODULES = [configure, correlation, diagnose, dialogue, graphs, items, levels, model_text, optima, prompts, proposals]


def runs_of(*lines):
    """Runs ``player difficulty domain``, each with a mark: won, lost, or - where it has not been played."""
    found = []
    for number, line in enumerate(lines):
        player, difficulty, domain, mark = line.split()
        status = "" if mark == "-" else "done"
        found.append(Run(f"{number}", player, difficulty, domain, number, status, mark == "W", 2, 0, False, 9, 6, 3))
    return found


def test_functions_on_texts_say_what_is_on_record():
    names = {}
    for module in (*MODULES, reading, repair, chances, searched_game, tables):
        names |= {name: value for name, value in vars(module).items() if not name.startswith("__")}
    more = {
        "math": math,
        "counts_table": counts_table,
        "Counter": Counter,
        "joined": dialogue.joined,
        "published": published,
        "validate": validate,
        "medical": load_domain("medical"),
        "figures": figures,
        "searching": searching,
        "import_transcripts": import_transcripts,
        "memory": memory,
        "SimpleNamespace": SimpleNamespace,
        "KumoLikelySuite": KumoLikelySuite,
        "runs_of": runs_of,
    }
    check_said("kumo_said", {**names, **globals(), **more}, plain)


def told_of(task, taken):
    """All that is made of a game after these tests."""
    now, moves = judge.situation(task, taken), {**task.shown(task.action_names), **dict.fromkeys(task.truths)}
    able = plain({name: sorted(each) for name, each in now.open.items()})
    yield f"    {now.survivors} {able} certain {now.certain} {now.answer}"
    for guarantee in (False, True):
        ends = [judge.judge(task, taken, named, search=True, guarantee=guarantee) for named in (None, *task.truths)]
        yield f"    {plain(ends[0])}; {' '.join(each.ending for each in ends[1:])}"
    left = {name: judge.remaining(task, taken, name) for name in moves}
    yield f"    remaining {judge.remaining(task, taken):.6g}; {plain(left)}"
    found = features.option_features(task, taken)
    yield "    " + " | ".join(
        f"{each.action} {' '.join(plain(value) for value in each.values.values())}" for each in found
    )
    yield f"    {plain({name: reply() for name, reply in shortcuts.shortcuts_of(task, taken, 'x').items()})}"
    yield f"    odds {plain(shortcuts.odds_of(task, taken))}"
    for test in task.action_names:
        yield f"    {test}:{presentation.ruled_out(task, taken, test, Presentation(feedback=('changed',)))}"
    search = OptimalSearch(task)
    best = search.best(task.shown(taken))
    why = reasons.reasons_to_name(task, taken, best)
    if best not in task.truths:
        why = reasons.reasons_to_test(task, search, taken, best)
    yield f"    {best}: {why}"


def test_games_are_judged_and_told_as_on_record():
    parts = []
    for name, task in GAMES.items():
        parts += [f"# {name}: {optima.game_key(task)[:12]} {graphs.signature(task)}"]
        for count in range(3):
            for taken in itertools.product(task.action_names[:3], repeat=count):
                if name != "nine" or count < 2:
                    parts += [f"after {taken}", *told_of(task, taken)]
        search = OptimalSearch(task)
        tree = show.Grower(task, search, 2).tree()
        walked = [(0, tree)]
        while walked:
            depth, node = walked.pop(0)
            parts.append(f"{'  ' * depth}{node.label}")
            walked = [*((depth + 1, child) for child in node.children), *walked]
    check_golden("kumo_hand_games", "\n".join(parts))
