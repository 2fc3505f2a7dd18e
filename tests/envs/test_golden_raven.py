"""Which rules RAVEN's layouts bear, which rows obey them, and what the solver makes of odd matrices, on record."""

import argparse
import dataclasses
import itertools
import sys
from types import SimpleNamespace

from PIL import Image

from envs.files import FileError
from envs.raven import (
    CONFIGURATIONS,
    STYLES,
    Component,
    Difficulty,
    Entity,
    Rule,
    commands,
    draw_shapes,
    enlarged,
    generate,
    is_noise,
    load,
    majority_vote,
    one_panel,
    puzzle,
    two_panels,
    two_rows,
)
from envs.raven.commands import add_arguments
from envs.raven.files import infer_rules
from envs.raven.generate import draw
from envs.raven.grammar import with_values
from envs.raven.published_drawing import published_raster
from envs.raven.render import slot_centers
from envs.raven.rules import RULE_GROUPS, narrowed, valid_rules
from envs.raven.solve import Verdict, _follows, holds, judge, view
from tests.golden import check_golden, digest

LAYOUTS = {layout.name: layout for form in CONFIGURATIONS.values() for layout in form.layouts}
RULES = [
    Rule(name, attribute, parameter)
    for group in RULE_GROUPS
    for name, attribute, parameters in group
    for parameter in parameters
]
DISTRIBUTED, CONSTANT = Rule("Distribute_Three", "Type"), Rule("Constant", "Type")


def said(rule):
    return f"{rule.name} {rule.attribute} {rule.parameter:+d}"


def test_the_rules_that_layouts_bear_are_those_on_record():
    """With the levels of a row's first panel: number, type, size, color."""
    parts = []
    nine = LAYOUTS["Distribute_Nine"]
    few = dataclasses.replace(nine, number=(3, 4), type=(2, 4), size=(4, 5), color=(5, 5))
    more = dataclasses.replace(nine, number=(2, 4), type=(3, 4), size=(1, 2), color=(3, 4))
    for name, layout in [*LAYOUTS.items(), ("few values", few), ("more", more)]:
        parts.append(f"{name}: {len(layout.slots)} slots, {layout.number} {layout.type} {layout.size} {layout.color}")
        for rule in RULES:
            left = narrowed(layout, rule)
            levels = f"{left.number} {left.type} {left.size} {left.color}" if left else "none"
            parts.append(f"    {said(rule)}: {levels}")
        parts.append(f"    weights: {[[weight for _, weight in valid_rules(layout, group)] for group in range(4)]}")
    for most, form in itertools.product((None, 4, 7), CONFIGURATIONS.values()):
        ranges = [(layout.type, layout.size, layout.color) for layout in with_values(form, most).layouts]
        parts.append(f"{form.name} of {most} values: {ranges}")
    for place, kind in itertools.product(RULES[:20], ("Constant", "Progression")):
        rules = (place, Rule(kind, "Type"), Rule("Constant", "Size"), Rule("Progression", "Color", 1))
        noise = [is_noise(rules, name, uniform=each) for name in ("Type", "Size", "Color") for each in (True, False)]
        parts.append(f"{said(place)}, then {kind}: {noise}")
    check_golden("raven_rules", "\n".join(parts))


def test_the_rows_that_obey_rules_are_those_on_record():
    parts = []
    for rule in RULES:
        if rule.attribute not in ("Position", "Number/Position") and rule.name in ("Progression", "Arithmetic"):
            rows = [row for row in itertools.product(range(5), repeat=3) if holds(rule, [row], 9)]
            parts.append(f"{said(rule)}: {' '.join(''.join(map(str, row)) for row in rows)}")
    places = [frozenset(taken) for count in (1, 2, 3) for taken in itertools.combinations(range(4), count)]
    for rule in RULES:
        if rule.attribute == "Position" and rule.name != "Distribute_Three":
            rows = [row for row in itertools.product(places, repeat=3) if holds(rule, [row], 4)]
            text = [",".join("".join(map(str, sorted(taken))) for taken in row) for row in rows]
            parts.append(f"{said(rule)}: {len(text)}: {' '.join(text[:30])} {digest(' '.join(text))}")
    mixed = [((0, 1), (1, 2)), ((0, 2), (1, 1)), ((1, 1), (2, 2)), ((1, 2), (2, 1)), ((0, 1), (2, 2), (3, 2)), 1, 2]
    for one, two in itertools.product(mixed, repeat=2):
        parts.append(f"{one} {two}: {holds(CONSTANT, [(one, one, two)], 4)} {holds(CONSTANT, [(two, one, one)], 4)}")
    first = [1, 2, 4]
    for one, two in itertools.product([[1, 2, 4], [2, 4, 1], [4, 1, 2], [1, 4, 2], [1, 1, 4], [1, 2, 3]], repeat=2):
        found = holds(DISTRIBUTED, [first, one], 4), holds(DISTRIBUTED, [first, one, two], 4)
        parts.append(f"{first} {one} {two}: {found} {holds(DISTRIBUTED, [one], 4)}")
    turned = [[*mixed[:3]], [*mixed[1:3], mixed[0]], [mixed[0], *mixed[4:6]], [mixed[5], mixed[0], mixed[4]]]
    parts += [f"{one} {two}: {holds(DISTRIBUTED, [one, two], 4)}" for one, two in itertools.product(turned, repeat=2)]
    check_golden("raven_rows", "\n".join(parts))


def reordered(panels):
    """The panels of a matrix in other orders."""
    yield panels
    yield panels[3:6] + panels[:3] + panels[6:]
    yield panels[:6] + panels[:2]
    yield panels[2::-1] + panels[5:2:-1] + panels[7:5:-1]
    yield panels[:1] * 8


def marks(verdict):
    return (
        f"{''.join(map(str, verdict.satisfied))} {''.join(map(str, verdict.chance))} {verdict.answers} {verdict.answer}"
    )


def inferred(problem, rules):
    """The rules of each component without their parameters, as the panels tell them."""
    told = []
    for index, (layout, own) in enumerate(zip(problem.configuration.layouts, rules, strict=True)):
        bare = [Rule(rule.name, rule.attribute) for rule in own]
        try:
            found = infer_rules(bare, [panel.components[index] for panel in problem.solution], layout, layout.name)
            told += map(said, found)
        except FileError as error:
            told.append(str(error))
    return ", ".join(told)


def test_drawn_problems_are_solved_as_on_record_and_odd_matrices_too():
    parts = []
    levels = [None, None, Difficulty(1), Difficulty(3, 4)]
    for (name, style), (seed, level) in itertools.product(itertools.product(CONFIGURATIONS, STYLES), enumerate(levels)):
        problem, tries = draw(name, 40 + seed, style, level)
        first, _ = draw(name, 40 + seed, style, level, redraw=False)
        parts.append(f"{name} {style} {level}: {tries} {problem.target} {digest(repr(problem))} {digest(repr(first))}")
        parts.append(f"    vote {majority_vote(problem)} {majority_vote(first)}")
        parts.append(f"    {inferred(problem, problem.rules)}")
        if seed % 2:
            parts.append(f"    by the rules of another: {inferred(problem, generate(name, seed).rules)}")
            parts += [
                f"    {marks(judge(problem.configuration, given, problem.candidates))}"
                for given in reordered(problem.context)
            ]
    for seed, style, level in ((742, "raven", None), (1540, "iraven", None), (437, "iraven", Difficulty(1, 4))):
        problem, tries = draw("distribute_four", seed, style, level)
        parts.append(f"a matrix given up, {seed} {style}: {tries} {problem.target} {digest(repr(problem))}")
    for name, seed, changing in (
        ("four", 2, 1),
        ("four", 43, 1),
        ("four", 2, 2),
        ("four", 8, 2),
        ("nine", 12, 1),
        ("nine", 19, 1),
        ("four", 27, 0),
        ("nine", 297, 0),
        ("four", 188, 0),
    ):
        problem, tries = draw(f"distribute_{name}", seed, "iraven", Difficulty(changing) if changing else None)
        changed = sorted({edit for edits in problem.edits for edit in edits})
        parts.append(
            f"{name} {seed}, few attributes to change: {changed} {tries} {problem.target} {digest(repr(problem))}"
        )
    for verdict in (Verdict((3, 4, 4, 4), (0, 2, 1, 1)), Verdict((5, 4), (3, 0)), Verdict((2, 2), (1, 1))):
        parts.append(f"{verdict}: {verdict.answers} {verdict.answer}")
    turned = Component((Entity(3, 1, 5, 0, 0), Entity(0, 2, 4, 0, 0)), 0)
    parts.append(f"{[view(turned, name) for name in ('Number', 'Type', 'Size', 'Color')]}")
    one, two = ((0, 2), (3, 1)), ((0, 1), (1, 2))
    parts.append(f"{[(step, _follows(one, two, step, 4), _follows(two, one, step, 4)) for step in range(5)]}")
    check_golden("raven_draws", "\n".join(parts))


def test_shapes_and_pictures_are_what_they_were():
    parts = []
    for layout, angle in itertools.product(LAYOUTS.values(), (6,)):
        for center in slot_centers(layout)[-1:]:
            drawn = [
                published_raster(shape, size, 3 * (shape - 2) % 10, angle, layout.extent, center)
                for shape, size in itertools.product(range(1, 6), (2, 5))
            ]
            inks = b"".join(each.ink.tobytes() for each in drawn)
            parts.append(f"{layout.name} {center} {angle}: {drawn[-1].top} {drawn[-1].left} {digest(inks)}")
    kinds = (
        ("left_center_single_right_center_single", "official", 2),
        ("up_center_single_down_center_single", "own", 2),
    )
    for name, render, scale in kinds:
        problem = load(dataclasses.replace(generate(name, 3).source, render=render))
        for picture in (one_panel(problem, 15), two_panels(problem, 3, 8), two_rows(problem)):
            large = enlarged(picture, scale)
            parts.append(f"{name} {render} {large.panels} {large.size} {digest(large.render().tobytes())}")
    large = enlarged(puzzle(load(generate(kinds[0][0], 3).source)), 2)
    parts.append(f"{large.size} {digest(large.render().tobytes())} {large.description}")
    check_golden("raven_pictures", "\n".join(parts))


def test_the_strokes_of_shapes_are_those_on_record(monkeypatch, tmp_path):
    parts, strips = [], []

    def called(name):
        def stroke(image, *given):
            shown = [str([each.tolist() if hasattr(each, "tolist") else each]) for each in given]
            parts.append(f"    {name} {image.shape} {' '.join(shown)}".replace("\n", " "))

        return stroke

    names = ("circle", "rectangle", "fillConvexPoly")
    cv2 = SimpleNamespace(**{name: called(name) for name in names})
    cv2.polylines = lambda image, polygons, closed, *given: called("polylines")(image, polygons[0], closed, *given)
    monkeypatch.setitem(sys.modules, "cv2", cv2)
    monkeypatch.setattr(draw_shapes, "FOLDER", tmp_path)
    draw_shapes.main()
    for path in sorted(tmp_path.glob("*.png")):
        with Image.open(path) as strip:
            strips.append(f"{path.name} {strip.size} {strip.mode}")
    check_golden("raven_strokes", "\n".join(parts + strips))


def test_problems_are_counted_by_what_is_wrong_with_them(monkeypatch, capsys):
    """What a solver answers where 3 is stated, who does as well, which look the same, and what most have."""
    kinds = {
        "a": (3, (), (), (3,)),
        "b": (None, (1, 3), ((1, 2), (5, 6)), (1, 3)),
        "c": (4, (), ((1, 2),), (0, 1, 2, 5)),
    }
    monkeypatch.setattr(commands, "solve", lambda problem: SimpleNamespace(answer=kinds[problem.kind][0]))
    for number, name in enumerate(("ambiguous", "twins", "majority_vote"), 1):
        monkeypatch.setattr(commands, name, lambda problem, number=number: kinds[problem.kind][number])
    parts = []
    for chosen in (
        "a one iraven",
        "a one iraven,b one iraven",
        "c two raven,a one iraven,a two raven,b one raven",
        "d one raven",
    ):
        problems = []
        for text in chosen.split(","):
            kind, name, style = text.split()
            problems.append(SimpleNamespace(kind=kind, configuration=SimpleNamespace(name=name), style=style, target=3))
        kinds["d"] = (3, (), ((0, 1),), (3,))
        for left_out in (0, 1):

            class Chosen(list):
                def __init__(self, args):
                    super().__init__(problems)
                    self.left_out = left_out

            monkeypatch.setattr(commands, "_Chosen", Chosen)
            code = commands._check(None)
            parts.append(f"{chosen}, {left_out} left out\n{capsys.readouterr().out}exit code {code}")
    check_golden("raven_counts", "\n".join(parts))


def test_what_commands_do_if_not_told_otherwise():
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    lines = (
        "generate out",
        "import in",
        "check",
        "check in",
        "show",
        "show in.npz --png x.png --style raven --seed -3",
    )
    parts = [
        f"{line}: {sorted(vars(parser.parse_args(line.split())).items())}".replace("PosixPath", "") for line in lines
    ]
    for number in ("-1", "0", "x", "1.5", "²", "3"):
        try:
            parts.append(f"{number}: {commands._positive(number)}")
        except argparse.ArgumentTypeError as error:
            parts.append(f"{number}: {error}")
    check_golden("raven_defaults", "\n".join(parts))
