"""Published code beside ours in the same run: ``--peer CHECKOUT`` of a benchmark that is compared with it.

The peer runs in a process of its own, with an interpreter that has what it needs (``--peer-python``). A benchmark asks it
for one measurement after the other, each followed by our own, so that both meet the same load; times are CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).with_name("peers")


def add_peer_arguments(parser: argparse.ArgumentParser, where: str) -> None:
    """``--peer`` and ``--peer-python``; ``where`` is the public repository."""
    parser.add_argument(
        "--peer", type=Path, metavar="CHECKOUT", help=f"measure this checkout of {where} in the same run"
    )
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter with the checkout's requirements")


class Peer:
    """A process that runs published code and measures it on request."""

    def __init__(self, name: str, checkout: Path, python: str) -> None:
        """Start ``benchmarks/peers/NAME.py`` on a checkout.

        Raises:
            SystemExit: the checkout does not exist.
        """
        if not checkout.is_dir():
            raise SystemExit(f"--peer {checkout}: no such folder")
        command = [python, str(SCRIPTS / f"{name}.py"), str(checkout.absolute())]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure(self, **request: Any) -> dict[str, Any]:
        """One measurement.

        Raises:
            SystemExit: the peer failed; it has shown why.
        """
        assert self._process.stdin and self._process.stdout
        try:
            print(json.dumps(request), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise SystemExit("the published code could not be started, see above") from None
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit("the published code failed, see above")
        return dict(json.loads(answer))

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()
