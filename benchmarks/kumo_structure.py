"""Drawn domains of a grid of structures, what was asked beside what was got: ``python -m benchmarks.kumo_structure [DOMAINS]``.

DOMAINS (default 2) are drawn for each structure; the figures are their means.
"""

import statistics

from rich.console import Console

from benchmarks.arguments import whole_numbers
from envs.kumo import GenerationError
from envs.kumo.structure import Structure, draw_domain, measure
from evals.report.terminal import LaidOut
from evals.tables import Cell, Table

GRID = (
    Structure(density=0.03, states=4),
    Structure(density=0.12),
    Structure(density=0.12, overlap=0.2, names="nonsense"),
    Structure(density=0.12, overlap=0.4),
    Structure(density=0.2, overlap=0.3),
    Structure(density=0.29),
    Structure(density=0.12, steps=(1.5, 2.0)),
    Structure(density=0.12, steps=(2.0, 2.5)),
    Structure(density=0.25, steps=(2.5, 3.2), states=4),
    Structure(density=0.5, overlap=0.1),
)


def main(domains: int) -> None:
    rows: list[tuple[Cell, ...]] = []
    for wanted in GRID:
        band = wanted.steps and f"{wanted.steps[0]} to {wanted.steps[1]}"
        try:
            got = [measure(draw_domain(wanted, index=index)) for index in range(domains)]
        except GenerationError:
            rows.append((wanted.density, "none found", wanted.overlap, None, band, None))
            continue
        density, overlap, steps = (
            statistics.mean(getattr(one, name) for one in got) for name in ("density", "overlap", "steps")
        )
        rows.append((wanted.density, density, wanted.overlap, overlap, band, steps))
    columns = ("density asked", "got", "overlap asked", "got ", "E[S] asked", "got  ")
    Console(width=110).print(LaidOut(Table("kumo_structure", "Drawn domains", columns, tuple(rows))))


if __name__ == "__main__":
    main(*whole_numbers(__doc__, domains=2))
