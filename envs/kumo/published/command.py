"""``raycade kumo import``: the published benchmark from the user's checkout."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from envs.disk import exit_code
from envs.kumo.published.checkout import CheckoutError
from envs.kumo.published.importing import Imported, import_checkout, warnings_to_text
from envs.printable import printable

_KINDS = {
    "refused": "left out",
    "domain": "defects of domains",
    "copy": "copies of other domains",
    "task": "malformed tasks",
    "line": "lines left out",
    "book": "missing or very short books",
    "oracle": "missing counts of the published search",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.description = (
        "Imports domains, tasks, books, prompts and search counts of the published KUMO repository from a checkout of it. "
        "Its Python files are read as data and never executed. raycade run suite=kumo suite.source=FOLDER "
        "suite.book=published suite.prompt=published suite.decoder=strict then plays the published benchmark."
    )
    parser.add_argument("checkout", type=Path, metavar="CHECKOUT", help="folder of the published repository")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where to write; an earlier import is replaced")


def main(options: argparse.Namespace) -> int:
    """Import and say what was found; 2 for bad input, 1 where the disk refuses."""
    try:
        imported = import_checkout(options.checkout, options.folder, _progress)
    except (CheckoutError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return exit_code(error)
    for line in warnings_to_text(imported):
        print(f"warning: {printable(line)}", file=sys.stderr)
    print("\n".join(describe(imported)))
    print(f"{options.folder}: written; play it with suite=kumo suite.source={options.folder}")
    return 0


def _progress(number: int, count: int, name: str) -> None:
    if sys.stderr.isatty():
        end = "\r" if number < count else "\n"
        print(
            f"\x1b[Kreading and searching: {number} of {count} domains ({name})", end=end, file=sys.stderr, flush=True
        )


def describe(imported: Imported) -> list[str]:
    """Counts of what an import brought, one a line."""
    levels = ", ".join(f"{count:,} {level}" for level, count in sorted(imported.tasks.items()))
    lines = [f"{len(imported.domains)} domains, {sum(imported.tasks.values()):,} tasks ({levels})"]
    for kind, meaning in _KINDS.items():
        found = imported.of_kind(kind)
        if found:
            domains = {flaw.domain for flaw in found}
            lines.append(f"warnings: {len(found)} {meaning} in {len(domains)} domains")
    reasons: Counter[str] = Counter()
    for flaw in imported.of_kind("task"):
        reasons.update(flaw.reasons)
    for reason, count in reasons.most_common():
        lines.append(f"  malformed: {count} tasks {reason}")
    touching = len(imported.touching)
    if touching:
        lines.append(f"{touching} domains have ranges that touch: the first one that matches decides")
    return lines
