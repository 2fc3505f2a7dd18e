"""The command ``raycade``, also ``python -m cluster``."""

import contextlib
import os
import sys
import threading
import time

from cluster import stop_signals

if sys.argv[1:2] in (["run"], ["serve"]) or sys.argv[1:3] == ["study", "run"]:
    stop_signals.leave_at_once()  # before the imports below, which take a second
    with stop_signals.own_interrupts_are_errors():
        import numpy  # noqa: F401
else:
    stop_signals.silent_interrupts()

from cluster.cli import main as run_command

END_SECONDS = 10.0
"""So long a thread that a game has left may take to end."""


def main() -> None:
    """Run the command of this process, and exit."""
    code: object = 1
    try:
        run_command()
    except SystemExit as end:
        code = end.code
        raise
    finally:
        stop_signals.silent_interrupts()  # what ends with the interpreter would show a traceback
        with contextlib.suppress(RuntimeError):  # where no thread can be started, the command has said so
            threading.Thread(target=_leave_threads_behind, args=[code], daemon=True).start()


def _leave_threads_behind(code: object) -> None:
    """End this process though threads of a game go on: the interpreter would wait for them for ever."""
    time.sleep(END_SECONDS)
    left = [each for each in threading.enumerate() if each.is_alive() and not each.daemon]
    main_has_ended = not threading.main_thread().is_alive()  # as soon as the interpreter waits for other threads
    if main_has_ended and left:
        os.write(2, f"warning: ended while {left[0].name} goes on, a thread that a game has left\n".encode())
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    main()
