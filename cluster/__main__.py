"""The command ``raycade``, also ``python -m cluster``."""

import sys

from cluster import stop_signals

if sys.argv[1:2] in (["run"], ["serve"]) or sys.argv[1:3] == ["study", "run"]:
    stop_signals.leave_at_once()  # before the imports below, which take a second
else:
    stop_signals.silent_interrupts()

from cluster.cli import main as run_command


def main() -> None:
    """Run the command of this process, and exit."""
    try:
        run_command()
    finally:
        stop_signals.silent_interrupts()  # what ends with the interpreter would show a traceback


if __name__ == "__main__":
    main()
