"""What lost a game, told from its steps."""

import random

import pytest

from envs.kidgym import Item, make, solve
from envs.kidgym.tasks.placement import RING
from evals.suites.kidgym import mistakes
from evals.suites.kidgym.mistakes import BLOCKED, FULL, MISFIT, Slip, Step, miscount, refusal, slip


def played(world, *actions):
    """The steps of these actions."""
    steps = []
    for action in actions:
        before = world.copy()
        steps.append(Step(before, action, world.take(action).accepted))
    return steps


def found(world, choose):
    """The first offered action that a function of it accepts."""
    return next(action for action in world.options if choose(action))


def test_the_lost_step_is_the_first_from_which_perfect_play_cannot_win_any_more():
    for seed in range(5):
        world = make("DMA", 2, seed)
        steps = played(world, *solve(world)[:2])
        assert slip(steps) is None
        unreachable = found(world, lambda action: not world.copy().take(action).accepted)
        steps += played(world, unreachable)
        assert slip(steps) is None, "one step may be wasted"
        steps += played(world, found(world, lambda action: not world.copy().take(action).accepted))
        assert slip(steps).step == 4


def test_the_step_that_lost_a_task_without_kinds_of_mistakes_is_counted_from_one(monkeypatch):
    monkeypatch.setattr(mistakes, "_RULES", {})
    world = make("PL", 1, 0)
    wrong = found(world, lambda action: action != solve(world)[0])
    assert slip(played(world, wrong)) == Slip(1, "wrong action")


def test_causes_of_refusal():
    world = make("MA", 2, 3)
    diamond = found(world, lambda action: world.scene[action.cell].sprite == "diamond")
    assert refusal(world, diamond) == BLOCKED
    full = make("CO", 3, 1)
    full.backpack = [Item("pile/egg/1")] * 4
    assert refusal(full, full.choices()[0]) == FULL
    basket = make("CL", 1, 0)
    basket.take(solve(basket)[0])
    belongs = dict(basket.belongs)[basket.backpack[0].sprite]
    other = found(basket, lambda action: action.verb == "put" and basket.scene[action.cell].sprite != belongs)
    assert refusal(basket, other) == MISFIT and slip(played(basket, other)).kind == "wrong basket"


def test_a_key_tried_on_the_door_of_its_own_color_is_the_rule_not_applied():
    for seed in range(40):
        world = make("DMA", 3, seed)
        for action in solve(world):
            own = [
                other
                for other in world.options
                if other.verb == "unlock"
                and world.backpack[other.slot].sprite.partition("/")[2]
                == world.scene[other.cell].sprite.partition("/")[2]
                and refusal(world, other) == MISFIT
            ]
            if own:
                assert slip(played(world, own[0], own[0])).kind == "key on the door of its own color"
                return
            world.take(action)
    raise AssertionError("no such moment found")


@pytest.mark.parametrize(("turn", "kind"), [(0, "direction not inverted"), (4, "turn forgotten")])
def test_placement(turn, kind):
    world = make("PL", 3, 5)
    around = list(RING.values())
    wanted = around[(list(RING).index(world.direction) + turn) % 8]
    assert slip(played(world, found(world, lambda action: action.cell == wanted))).kind == kind


def test_what_was_declared_and_by_how_much_it_is_wrong():
    world = make("CO", 2, 3)
    declare = found(world, lambda action: action.verb == "declare")
    (step,) = played(world, declare)
    assert slip([step]).step == 1 and slip([step]).kind == "declared too few" and miscount(world) == -world.target
    assert miscount(make("CO", 2, 3)) is None and miscount(make("CL", 1, 0)) is None


@pytest.mark.parametrize("variant", ["published", "balanced"])
def test_a_count_is_lost_by_too_many_by_what_leaves_no_way_or_by_declaring_with_too_few(variant):
    generator, kinds = random.Random(0), set()
    for game in range(60):
        world = make("CO", 1 + game % 3, game, variant=variant)
        steps = []
        while not world.done:
            steps += played(world, generator.choice(world.options))
        lost = slip(steps)
        if lost and steps[lost.step - 1].accepted:
            before, action, _ = steps[lost.step - 1]
            after = before.copy()
            after.take(action)
            lacking = [after.lacking(name) for name, _ in after.wanted]
            if action.verb == "declare":
                assert max(lacking) > 0 and lost.kind == "declared too few"
            else:
                assert lost.kind == ("collected too many" if min(lacking) < 0 else "number out of reach")
            kinds.add(lost.kind)
    assert len(kinds) == 3


def test_the_wrong_chest():
    world = make("MMA", 1, 0)
    actions = solve(world)
    for action in actions[:-1]:
        world.take(action)
    wrong = found(world, lambda action: action.verb == "obtain" and action != actions[-1])
    assert slip(played(world, wrong)).kind == "wrong chest"
