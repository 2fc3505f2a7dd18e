"""Mutation testing: the share of one-line bugs that the fast tests detect. Runs mutmut on a copy of the tree.

python -m benchmarks.mutation                      all modules below
python -m benchmarks.mutation router statistics    modules with these names
python -m benchmarks.mutation --show router        also print the surviving mutants

A mutant counts as killed if a test fails or hangs. Messages are mutated too and rarely matter, so a score of 1 is not
the goal; docs/mutation.md lists the survivors that are equivalent to the original.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from evals.tables import Table

ROOT = Path(__file__).resolve().parents[1]
MODULES: dict[str, tuple[str, ...]] = {
    "evals/statistics.py": ("tests/evals/test_statistics.py", "tests/evals/test_paired.py"),
    "evals/tables.py": ("tests/evals/test_tables.py",),
    "evals/cells.py": ("tests/evals/test_suite.py",),
    "evals/suite.py": ("tests/evals/test_suite.py",),
    "evals/types.py": ("tests/evals/test_conversation.py",),
    "evals/conversation.py": ("tests/evals/test_conversation.py",),
    "evals/reasoning.py": ("tests/evals/test_conversation.py",),
    "evals/players.py": ("tests/evals/test_conversation.py",),
    "evals/bundle.py": ("tests/evals/test_suite.py",),
    "evals/view.py": ("tests/evals/test_suite.py",),
    "evals/records.py": ("tests/evals/test_records.py",),
    "evals/run_data.py": ("tests/evals/test_run_data.py",),
    "evals/ledger.py": ("tests/evals/test_ledger.py", "tests/evals/test_records.py"),
    "evals/ledger_check.py": ("tests/evals/test_ledger.py", "tests/evals/test_records.py"),
    "evals/ledger_columns.py": ("tests/evals/test_ledger.py", "tests/evals/test_records.py"),
    "evals/paired.py": ("tests/evals/test_paired.py",),
    "cluster/runner/router.py": ("tests/cluster/test_router.py",),
    "cluster/runner/admission.py": ("tests/cluster/test_admission.py", "tests/cluster/test_runner.py"),
    "cluster/runner/hedging.py": ("tests/cluster/test_hedging.py",),
    "cluster/runner/episode_queue.py": ("tests/cluster/test_admission.py",),
    "cluster/observe/run_statistics.py": ("tests/cluster/test_run_statistics.py", "tests/cluster/test_spending.py"),
    "cluster/observe/performance.py": ("tests/cluster/test_performance.py",),
    "cluster/observe/progress.py": ("tests/cluster/test_performance.py",),
    "cluster/commands/plan.py": ("tests/cluster/test_performance.py",),
    "cluster/commands/merge.py": ("tests/cluster/test_merge.py",),
    "cluster/commands/report.py": ("tests/cluster/test_run.py",),
    "cluster/storage/run_directory.py": ("tests/cluster/test_ledger.py",),
    "cluster/storage/shard.py": ("tests/cluster/test_merge.py", "tests/cluster/test_cli.py"),
    "cluster/storage/spending.py": ("tests/cluster/test_spending.py",),
    "cluster/engines/spend.py": ("tests/cluster/openai_api/test_spend.py",),
    "evals/kumo/decode.py": ("tests/evals/test_kumo_decode.py",),
    "evals/kumo/written.py": ("tests/evals/test_kumo_decode.py",),
    "evals/kumo/score.py": ("tests/evals/test_kumo_score.py",),
    "evals/kidgym/decode.py": ("tests/evals/test_kidgym_decode.py",),
    "evals/kidgym/choices.py": ("tests/evals/test_kidgym_decode.py",),
    "evals/kidgym/score.py": ("tests/evals/test_kidgym_score.py",),
    "evals/multistar/read_answer.py": ("tests/evals/test_multistar_replies.py",),
}
"""Each module with its fast tests."""

CONFIG = """
[tool.mutmut]
source_paths = ["envs", "evals", "cluster"]
only_mutate = ["{module}"]
pytest_add_cli_args_test_selection = {tests}
pytest_add_cli_args = ["-m", "not ray and not vllm", "-p", "no:cacheprovider"]
also_copy = ["conf", "tests", "benchmarks", "docs", "setup.py", "README.md", "launch.sh", "pyproject.toml"]
"""


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", help="ends of paths, without .py; all by default")
    parser.add_argument("--show", action="store_true", help="print the mutants that survived")
    options = parser.parse_args()
    chosen = [
        module
        for module in MODULES
        if not options.modules or any(module.removesuffix(".py").endswith(name) for name in options.modules)
    ]
    rows = []
    for module in chosen:
        counts, survivors = mutate(module)
        killed, total = counts["killed"] + counts["timeout"], sum(counts.values())
        rows.append((module, total, killed, counts["survived"], counts["no tests"], killed / total if total else None))
        print(*rows[-1], flush=True, file=sys.stderr)
        if options.show:
            print(*survivors, sep="\n", flush=True)
    columns = ("module", "mutants", "killed", "survived", "not reached", "score")
    print(Table("mutation", "Mutants killed by the fast tests", columns, tuple(rows)).to_markdown())


def mutate(module: str) -> tuple[Counter[str], list[str]]:
    """Run mutmut on one module; returns how its mutants ended, and the survivors' differences."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        ignored = shutil.ignore_patterns(".git", ".venv", "runs", "multirun", "*.egg-info", "__pycache__", "mutants")
        shutil.copytree(ROOT, copy, ignore=ignored)
        tests = [test for test in MODULES[module] if (copy / test).exists()]
        pyproject = copy / "pyproject.toml"
        pyproject.write_text(pyproject.read_text() + CONFIG.format(module=module, tests=tests))
        mutmut = str(Path(sys.executable).with_name("mutmut"))
        environment = {**os.environ, "PYTHONPATH": ""}
        with (copy / "log").open("wb") as log:
            subprocess.run([mutmut, "run", "--max-children", "2"], cwd=copy, stdout=log, stderr=log, env=environment)
        listed = subprocess.run([mutmut, "results", "--all", "true"], cwd=copy, capture_output=True, text=True).stdout
        ends = re.findall(r"^\s*(\S+): ([\w ]+)$", listed, re.MULTILINE)
        if not ends:
            raise SystemExit(f"{module}: mutmut made no mutants:\n{(copy / 'log').read_text(errors='replace')[-2000:]}")
        survivors = [
            subprocess.run([mutmut, "show", name], cwd=copy, capture_output=True, text=True).stdout
            for name, end in ends
            if end in ("survived", "no tests")
        ]
        return Counter(end for _, end in ends), survivors


if __name__ == "__main__":
    main()
