"""Renders a chat template of others within bounds of time and memory; a process of ``template_files.check_template``.

A template is a program. Its sandbox keeps it from Python and from files, but neither from loops without end nor from texts of
gigabytes, which nothing within a process can stop.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster.engines.prompt_check import Arrangement, WrongPromptError, arrangements, choose_arrangement
from cluster.engines.template_files import CPU_SECONDS, MORE_BYTES, OPENING, StoredTemplate, marks_in
from evals.types import Chat

_TOO_LARGE = 3


def main(given: Mapping[str, Any]) -> None:
    """Render every chat that a plan tries; the process ends with a signal or an exit code if a bound is exceeded.

    Args:
        given: ``text`` and ``values`` of a ``StoredTemplate``, and what is ``asked``: pictures, system role, reasoning.
    """
    template = StoredTemplate(given["text"], given["values"])

    def render(chat: Chat, arrangement: Arrangement | None = None) -> str:
        try:
            return template.render(chat, arrangement)
        except MemoryError:
            os._exit(_TOO_LARGE)

    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MORE_BYTES, used + MORE_BYTES))
    spent = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2])) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (spent + CPU_SECONDS, spent + CPU_SECONDS))
    pictures, system_role, keeps_reasoning = given["asked"]
    tried = list(arrangements(system_role, bool(pictures), keeps_reasoning))
    with contextlib.suppress(WrongPromptError):
        choose_arrangement(render, pictures, tried, marks_in(template.text))
    with contextlib.suppress(Exception):  # expressions of templates raise whatever they like; here only bounds count
        render(OPENING)


if __name__ == "__main__":
    main(json.load(sys.stdin))
