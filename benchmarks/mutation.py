"""Mutation testing: the share of one-line bugs that the fast tests detect. Runs mutmut on a copy of the tree.

python -m benchmarks.mutation                      all modules below
python -m benchmarks.mutation router statistics    modules with these names
python -m benchmarks.mutation --show router        also print the surviving mutants

A mutant counts as killed if a test fails or hangs. Mutants of message texts (sentences and f-strings) are left out: tests
state behavior, not English. docs/records/mutation.md lists the survivors that are equivalent to the original.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from evals.tables import Table

ROOT = Path(__file__).resolve().parents[1]
MODULES: dict[str, tuple[str, ...]] = {
    "evals/stats/intervals.py": ("tests/evals/test_statistics.py", "tests/evals/test_paired.py"),
    "evals/tables.py": ("tests/evals/test_tables.py",),
    "evals/summary/cells.py": ("tests/evals/test_suite.py",),
    "evals/suite.py": ("tests/evals/test_suite.py",),
    "evals/suite_results.py": ("tests/evals/test_suite.py",),
    "evals/types.py": ("tests/evals/test_conversation.py",),
    "evals/conversation.py": ("tests/evals/test_conversation.py",),
    "evals/replies/reasoning.py": ("tests/evals/test_conversation.py",),
    "evals/players.py": ("tests/evals/test_conversation.py",),
    "evals/suites/bundle.py": ("tests/evals/test_suite.py",),
    "evals/view.py": ("tests/evals/test_suite.py",),
    "evals/ledger/records.py": ("tests/evals/test_records.py",),
    "evals/ledger/run_data.py": ("tests/evals/test_run_data.py",),
    "evals/ledger/ledger.py": ("tests/evals/test_ledger.py", "tests/evals/test_records.py"),
    "evals/ledger/check.py": ("tests/evals/test_ledger.py", "tests/evals/test_records.py"),
    "evals/ledger/columns.py": ("tests/evals/test_ledger.py", "tests/evals/test_records.py"),
    "evals/summary/paired.py": ("tests/evals/test_paired.py",),
    "cluster/runner/router.py": ("tests/cluster/test_router.py",),
    "cluster/runner/admission.py": ("tests/cluster/test_admission.py",),
    "cluster/runner/hedging.py": ("tests/cluster/test_hedging.py",),
    "cluster/runner/episode_queue.py": ("tests/cluster/test_episode_queue.py",),
    "cluster/runner/model_player.py": ("tests/cluster/test_model_player.py", "tests/cluster/test_shared_calls.py"),
    "cluster/observe/run_statistics.py": ("tests/cluster/test_run_statistics.py",),
    "cluster/observe/performance.py": ("tests/cluster/test_performance.py",),
    "cluster/observe/progress.py": ("tests/cluster/test_progress.py",),
    "cluster/commands/plan.py": ("tests/cluster/test_plan.py",),
    "cluster/commands/merge.py": ("tests/cluster/test_merge.py",),
    "cluster/commands/report.py": (
        "tests/cluster/test_report_tables.py",
        "tests/cluster/test_report.py",
        "tests/cluster/test_report_files.py",
    ),
    "cluster/commands/resume.py": ("tests/cluster/test_resume.py",),
    "cluster/driver/replica_pool.py": ("tests/cluster/test_replica_pool.py",),
    "cluster/storage/run_directory.py": ("tests/cluster/test_ledger.py", "tests/cluster/test_compaction.py"),
    "cluster/storage/stored_run.py": ("tests/cluster/test_stored_run.py", "tests/cluster/test_ledger.py"),
    "cluster/storage/provenance.py": ("tests/cluster/test_provenance.py",),
    "cluster/storage/compaction.py": ("tests/cluster/test_compaction.py",),
    "cluster/storage/lock.py": ("tests/cluster/test_lock.py",),
    "cluster/storage/durable.py": ("tests/cluster/test_ledger.py",),
    "cluster/storage/shard.py": ("tests/cluster/test_shard.py",),
    "cluster/storage/spending.py": ("tests/cluster/test_spending.py",),
    "cluster/engines/spend.py": ("tests/cluster/test_spend.py",),
    "evals/suites/kumo/decode.py": ("tests/evals/suites/kumo/test_kumo_decode.py",),
    "evals/suites/kumo/name_matching.py": ("tests/evals/suites/kumo/test_kumo_decode.py",),
    "evals/suites/kumo/score.py": ("tests/evals/suites/kumo/test_kumo_score.py",),
    "evals/suites/kidgym/decode.py": ("tests/evals/suites/kidgym/test_kidgym_decode.py",),
    "evals/suites/kidgym/choices.py": ("tests/evals/suites/kidgym/test_kidgym_decode.py",),
    "evals/suites/kidgym/score.py": ("tests/evals/suites/kidgym/test_kidgym_score.py",),
    "evals/suites/multistar/read_answer.py": ("tests/evals/suites/multistar/test_multistar_replies.py",),
    "evals/suites/multistar/score.py": (
        "tests/evals/suites/multistar/test_multistar_score.py",
        "tests/evals/suites/multistar/test_multistar_suite.py",
    ),
    "evals/replies/answer_tags.py": ("tests/evals/test_conclusion.py", "tests/evals/suites/kumo/test_kumo_decode.py"),
    "evals/replies/conclusion.py": ("tests/evals/test_conclusion.py", "tests/evals/test_no_choice_replies.py"),
    "evals/summary/reply_health.py": ("tests/evals/test_reply_health.py",),
    "evals/analysis/compare.py": ("tests/evals/test_compare.py",),
    "evals/analysis/differences.py": ("tests/evals/test_compare.py",),
    "evals/summary/failures.py": ("tests/evals/test_failures.py",),
    "evals/stats/power.py": ("tests/evals/test_power.py",),
    "evals/analysis/rescore.py": ("tests/evals/test_rescore.py",),
    "evals/analysis/retest.py": ("tests/evals/test_rescore.py", "tests/cluster/test_replay.py"),
    "evals/analysis/samples.py": ("tests/evals/test_look_inside.py",),
    "evals/summary/overview.py": ("tests/evals/test_look_inside.py",),
    "evals/summary/cost.py": ("tests/evals/test_look_inside.py",),
    "evals/suites/kumo/lab/trajectories/check.py": ("tests/evals/suites/kumo/test_kumo_trajectories.py",),
    "evals/suites/kumo/validate.py": ("tests/evals/suites/kumo/test_kumo_validate.py",),
    "evals/suites/kumo/lab/pipeline/tables.py": (
        "tests/evals/suites/kumo/test_kumo_pipeline.py",
        "tests/cluster/test_kumo_pipeline.py",
    ),
    "evals/suites/kumo/lab/pipeline/folder.py": (
        "tests/evals/suites/kumo/test_kumo_pipeline.py",
        "tests/cluster/test_kumo_pipeline.py",
    ),
    "cluster/observe/run_status.py": ("tests/cluster/test_commands.py",),
    "cluster/runner/shared_calls.py": ("tests/cluster/test_shared_calls.py",),
}
"""Each module with its fast tests."""

NOT_COPIED = (".git", ".venv", "runs", "multirun", "*.egg-info", "__pycache__", "mutants", ".*_cache")

CONFIG = """
[tool.mutmut]
source_paths = ["envs", "evals", "cluster"]
only_mutate = ["{module}"]
pytest_add_cli_args_test_selection = {tests}
pytest_add_cli_args = ["-m", "not ray and not vllm and not browser", "-p", "no:cacheprovider"]
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
        ends, sources = mutate(module)
        counted = {name: end for name, end in ends.items() if not is_message(*sources[name])}
        survivors = [name for name, end in counted.items() if end in ("survived", "no tests")]
        killed, total = len(counted) - len(survivors), len(counted)
        rows.append((module, total, killed, killed / total if total else None, len(ends) - total))
        print(*rows[-1], flush=True, file=sys.stderr)
        if options.show:
            for name in survivors:
                print(f"# {name}: {ends[name]}\n{difference(*sources[name])}", flush=True)
    columns = ("module", "mutants", "killed", "score", "messages left out")
    print(Table("mutation", "Mutants killed by the fast tests", columns, tuple(rows)).to_markdown())


def mutate(module: str) -> tuple[dict[str, str], dict[str, tuple[ast.FunctionDef, ast.FunctionDef]]]:
    """Run mutmut on one module; returns how each mutant ended, and each one's function before and after."""
    mutmut = str(Path(sys.executable).with_name("mutmut"))
    if not Path(mutmut).exists():
        raise SystemExit("mutmut is not installed: pip install -e .[mutation]")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*NOT_COPIED))
        tests = [test for test in MODULES[module] if (copy / test).exists()]
        pyproject = copy / "pyproject.toml"
        pyproject.write_text(pyproject.read_text() + CONFIG.format(module=module, tests=tests))
        environment = {**os.environ, "PYTHONPATH": ""}
        with (copy / "log").open("wb") as log:
            subprocess.run([mutmut, "run", "--max-children", "2"], cwd=copy, stdout=log, stderr=log, env=environment)
        listed = subprocess.run([mutmut, "results", "--all", "true"], cwd=copy, capture_output=True, text=True).stdout
        ends = dict(re.findall(r"^\s*(\S+): ([\w ]+)$", listed, re.MULTILINE))
        if not ends or "not checked" in ends.values():
            log_end = (copy / "log").read_text(errors="replace")[-2000:]
            raise SystemExit(f"{module}: mutmut did not come to its end:\n{log_end}")
        tree = ast.parse((copy / "mutants" / module).read_text())
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    sources = {}
    for name in ends:
        mutant = name.rpartition(".")[2]
        sources[name] = functions[f"{mutant.rpartition('__mutmut_')[0]}__mutmut_orig"], functions[mutant]
    return ends, sources


def difference(original: ast.AST, mutant: ast.AST) -> str:
    """The lines that differ."""
    lines = difflib.ndiff(
        *(re.sub(r"\w+__mutmut_\w+", "", ast.unparse(tree)).splitlines() for tree in (original, mutant))
    )
    return "\n".join(line for line in lines if line[0] in "+-")


def is_message(original: object, mutant: object) -> bool:
    """Whether all that a mutation changed is a text for people: a string with a blank in it, or an f-string."""
    if isinstance(original, ast.JoinedStr) or (
        isinstance(original, ast.Constant) and isinstance(original.value, str) and " " in original.value
    ):
        return True
    if isinstance(original, list) and isinstance(mutant, list) and len(original) == len(mutant):
        pairs = list(zip(original, mutant, strict=True))
    elif isinstance(original, ast.AST) and type(original) is type(mutant):
        names = [name for name in original._fields if not (name == "name" and hasattr(original, "decorator_list"))]
        pairs = [(getattr(original, name), getattr(mutant, name)) for name in names]
    else:
        return False
    changed = [pair for pair in pairs if not same(*pair)]
    return len(changed) == 1 and is_message(*changed[0])


def same(one: object, other: object) -> bool:
    """Whether two pieces of syntax are the same."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, ast.AST) and isinstance(other, ast.AST):
        return ast.dump(one) == ast.dump(other)
    return type(one) is type(other) and one == other


if __name__ == "__main__":
    main()
