"""``raycade doctor``: what is broken here, what that would break, and how to mend it."""

from __future__ import annotations

import argparse
import json
import os
import socket
from collections import Counter
from collections.abc import Sequence

from cluster.doctor.check import WIDTH, Check, Finding, Need, Outcome, looked, need_of
from cluster.doctor.network import RAY_CHECKS
from cluster.doctor.nodes import (
    ON_EACH,
    Meeting,
    Report,
    compared,
    hosted,
    job_has_other_nodes,
    lines_of,
    look,
    through_ray,
    through_slurm,
)
from cluster.errors import RUN_FAILED, UserError
from envs.printable import printable


def main(options: argparse.Namespace) -> int:
    """Look, and print; returns the exit code."""
    if options.node:
        address, lock = json.loads(options.node)
        report = look(need_of(options.overrides, options.quick), Meeting(address, lock))
        print(*lines_of(report, os.environ.get("SLURM_PROCID", "0")), sep="\n", flush=True)
        return 0
    try:
        need, settings = need_of(options.overrides, options.quick), Outcome("ok", "complete")
    except UserError as error:
        need = need_of(["suite=kumo", "suite.domains=[medical]"], options.quick)
        settings = Outcome(
            "fail", str(error), "raycade run with these settings", "correct them (the rest is about the demo)"
        )
    shown = Printer(options.json)
    host = socket.gethostname()
    shown.add(looked(Check("settings", "settings of the run", lambda _: settings), need, host))
    joined = [shown.add(looked(check, need, host)) for check in RAY_CHECKS]
    everywhere = need.cluster.address is not None and all(finding.status == "ok" for finding in joined)
    if everywhere or job_has_other_nodes():
        _many(need, options.overrides, everywhere, shown)
    else:
        for check in ON_EACH:
            shown.add(looked(check, need, host))
    return shown.end()


def _many(need: Need, overrides: Sequence[str], through: bool, shown: Printer) -> None:
    """Look at all machines, of the Ray cluster or of the Slurm job."""
    if through:
        from cluster.ray_backend.capacity import living_nodes

        nodes = living_nodes()
        here = socket.gethostname()
        others = [node["NodeManagerAddress"] for node in nodes if node["NodeManagerHostname"] != here]
        first = others[0] if others else here
        with hosted(need, first) as (host, meeting):
            reports = through_ray(need, meeting, nodes)
    else:
        here = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
        with hosted(need, here) as (host, meeting):
            reports = through_slurm(meeting, overrides, need.quick)
    for finding in compared(reports, host.clocks):
        shown.add(finding)
    for report in reports:
        shown.report(report)


class Printer:
    """Prints findings as they come, and counts them."""

    def __init__(self, as_json: bool) -> None:
        """``as_json`` prints them at the end, as one object."""
        self._json = as_json
        self._all: list[Finding] = []

    def add(self, finding: Finding) -> Finding:
        """One finding, shown at once."""
        self._all.append(finding)
        if not self._json:
            for line in finding.lines():
                print(printable(line), flush=True)
        return finding

    def report(self, report: Report) -> None:
        """A machine's findings: those that are not well, and how many the others are."""
        self._all += report.findings
        if self._json:
            return
        good = sum(finding.status in ("ok", "skipped") for finding in report.findings)
        print(printable(f"\n{report.host}: {good} of {len(report.findings)} checks ok or not needed"), flush=True)
        for finding in report.findings:
            if finding.status in ("warn", "fail"):
                for line in finding.lines():
                    print(printable(line), flush=True)

    def end(self) -> int:
        """The sum; returns the exit code."""
        count = Counter(finding.status for finding in self._all)
        failed = count["fail"]
        code = RUN_FAILED if failed else 0
        if self._json:
            checks = [finding.to_json() for finding in self._all]
            print(json.dumps({"ok": not failed, "checks": checks}, indent=1))
            return code
        how_many = str(failed) if failed else "none"
        text = f"\n{how_many} of {len(self._all)} checks failed"
        if count["warn"]:
            text += f", {count['warn']} with a warning"
        print(f"{text}."[: WIDTH + 1])
        return code
