"""Task generation compared with the published code: ``python -m benchmarks.kumo_generate``.

Per domain and difficulty: the median over 5 repeats of the mean time per task for 200 tasks, including all checks and
writing the same fields as the published code. Its figures were measured the same way (2 vCPU EPYC, Python 3.11); unlike ours,
its tasks may give away their answer.
"""

import gc
import json
import statistics
import tempfile
import time
from pathlib import Path

from rich.console import Console

from envs.kumo import DIFFICULTIES, Task, available_domains, generate_tasks, load_domain
from evals.report.terminal import LaidOut
from evals.tables import Table

TASKS, REPEATS = 200, 5
PUBLISHED = {
    "easy": {"medical": 0.13, "chemical": 0.24, "music": 0.39, "education": 0.13, "fantasy": 0.15},
    "hard": {"medical": 0.41, "chemical": 1.74, "music": 2.84, "education": 0.45, "fantasy": 0.47},
}
"""Mean milliseconds per task of the published code."""


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for difficulty, size in DIFFICULTIES.items():
            for name in available_domains():
                milliseconds = (
                    statistics.median(seconds(name, size, Path(folder)) for _ in range(REPEATS)) / TASKS * 1e3
                )
                published = PUBLISHED[difficulty].get(name)
                ratio = published and round(published / milliseconds, 2)
                rows.append((difficulty, name, round(1e3 / milliseconds), round(milliseconds, 3), published, ratio))
    columns = ("difficulty", "domain", "tasks/s", "ms per task", "published ms", "ratio")
    Console(width=110).print(LaidOut(Table("kumo_generate", "Task generation", columns, tuple(rows))))


def seconds(name: str, size: tuple[int, int], folder: Path) -> float:
    domain = load_domain(name)
    gc.collect()  # do not charge generation for garbage from loading the domain
    start = time.process_time()
    tasks = generate_tasks(domain, *size, count=TASKS)
    (folder / "tasks.jsonl").write_text("\n".join(map(line, tasks)))
    return time.process_time() - start


def line(task: Task) -> str:
    """The fields of a task that the published code writes; ours stores more."""
    shown = dict(zip(task.action_names, task.observations, strict=True))
    fields = {"truths": task.truths, "actions": task.action_names, "observations": shown}
    return json.dumps({**fields, "seed": task.seed, "valid_truth": task.valid_truth})


if __name__ == "__main__":
    main()
