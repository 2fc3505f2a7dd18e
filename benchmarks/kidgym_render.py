"""KidGym's rendering speed on one core, relative to the published code.

python -m benchmarks.kidgym_render            frames/s: rendering only, frames of all 36 cells
python -m benchmarks.kidgym_render --steps    rendered steps/s: random play with resets, one frame per step
python -m benchmarks.kidgym_render --steps --peer CHECKOUT    the published code plays in turns with ours, cell by cell

Without ``--peer`` the ratios are to the 36 rendered steps/s that were measured earlier on another machine. Times are CPU
seconds, so a busy machine does not matter. The first pass, which fills the tile cache, is reported separately.
"""

import argparse
import itertools
import random
import statistics
import time

from benchmarks.peer import Peer, add_peer_arguments
from envs.kidgym.tasks import ALL_TASKS

PUBLISHED = 36.0
"""Rendered steps/s of the published code (median over its 36 cells, one core), as measured earlier."""
LEVELS = (1, 2, 3)


def play(task, level, seed, cell_pixels):
    """One random episode; yields its frames."""
    rng = random.Random(seed)
    world = task(level, seed, cell_pixels)
    yield world.frame
    while not world.done:
        world.step(rng.randrange(len(world.actions)))
        yield world.frame


def line(name, count, seconds):
    rate = count / seconds
    print(f"{name:<12}{count:>8} {1e6 * seconds / count:>9.1f} us {rate:>9.0f}/s {rate / PUBLISHED:>7.0f}x", flush=True)


def frames(seconds, cell_pixels):
    cells = [(task, level) for task in ALL_TASKS for level in LEVELS]
    drawn = [frame for task, level in cells for seed in range(10) for frame in play(task, level, seed, cell_pixels)]
    start = time.process_time()
    for frame in drawn:
        frame.render()
    line("first pass", len(drawn), time.process_time() - start)
    start, count = time.process_time(), 0
    while time.process_time() - start < seconds:
        for frame in drawn:
            frame.render()
        count += len(drawn)
    line("frames", count, time.process_time() - start)


def rendered_steps(task, level, seeds, cell_pixels):
    """Random episodes with every frame rendered, including the one of the reset, which is no step."""
    for seed in seeds:
        frames = play(task, level, seed, cell_pixels)
        next(frames).render()
        for frame in frames:
            frame.render()
            yield


def steps(seconds, cell_pixels):
    cells = list(itertools.product(ALL_TASKS, LEVELS))
    start = time.process_time()
    warm = sum(1 for task, level in cells for _ in rendered_steps(task, level, range(100), cell_pixels))
    first = time.process_time() - start
    line("first pass", warm, first)
    total, total_seconds, rates = warm, first, {}
    for task, level in cells:
        start, count = time.process_time(), 0
        for _ in rendered_steps(task, level, itertools.count(1000), cell_pixels):
            count += 1
            if not count % 32 and time.process_time() - start > seconds / len(cells):
                break
        used = time.process_time() - start
        line(f"{task.name}_L{level}", count, used)
        total, total_seconds = total + count, total_seconds + used
        rates[f"{task.name}_L{level}"] = count / used
    line("all", total, total_seconds)
    slowest = min(rates, key=rates.__getitem__)
    print(f"'all' includes the first pass; the slowest cell is {slowest} with {rates[slowest] / PUBLISHED:.0f}x")


def beside_peer(seconds, cell_pixels, peer):
    """Random play of each cell, the published code and ours in turns, frames of resets drawn but not counted in both."""
    cells, ratios = list(itertools.product(ALL_TASKS, LEVELS)), []
    for task, level in cells:  # the tile cache, which a run fills once
        for _ in rendered_steps(task, level, range(20), cell_pixels):
            pass
    print(f"{'cell':<12}{'published/s':>12}{'ours/s':>10}{'ratio':>8}")
    for task, level in cells:
        theirs = peer.measure(cell=f"{task.name}_L{level}", seconds=seconds / len(cells) / 2)
        if not theirs["count"]:
            print(f"{task.name + f'_L{level}':<12}{'-':>12}  the checkout lacks this task's files")
            continue
        start, count = time.process_time(), 0
        for _ in rendered_steps(task, level, itertools.count(1000), cell_pixels):
            count += 1
            if not count % 32 and time.process_time() - start > seconds / len(cells) / 2:
                break
        ours, published = count / (time.process_time() - start), theirs["count"] / theirs["seconds"]
        ratios.append(ours / published)
        print(f"{task.name + f'_L{level}':<12}{published:>12.1f}{ours:>10.0f}{ours / published:>7.0f}x", flush=True)
    print(f"median {statistics.median(ratios):.0f}x, lowest {min(ratios):.0f}x of the published code in the same run")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", action="store_true", help="random play instead of rendering only")
    parser.add_argument("--seconds", type=float, default=10.0, help="CPU seconds to measure (default 10)")
    parser.add_argument("--cell", type=int, default=64, help="pixels of a cell: 32, 64 or 96 (default 64)")
    add_peer_arguments(parser, "github.com/BoBo-Ye/KidGym")
    arguments = parser.parse_args()
    if arguments.peer:
        if not arguments.steps:
            parser.error("--peer: goes with --steps; the published code renders within its steps")
        peer = Peer("kidgym", arguments.peer, arguments.peer_python)
        beside_peer(arguments.seconds, arguments.cell, peer)
        peer.close()
        return
    print(f"relative to {PUBLISHED:g} rendered steps/s of the published code, measured earlier on another machine")
    (steps if arguments.steps else frames)(arguments.seconds, arguments.cell)


if __name__ == "__main__":
    main()
