"""The arguments of the commands, apart from what they do: help and completion import nothing that computes or serves."""

import argparse
from collections.abc import Callable, Mapping
from typing import Final

from cluster.commands.arguments import comparing, exchanging, playing, preparing, showing

ADD_ARGUMENTS: Final[Mapping[str, Callable[[argparse.ArgumentParser], None]]] = {
    "compare": comparing.compare,
    "study": comparing.study,
    "list": showing.list_,
    "show": showing.show,
    "notes": showing.notes,
    "status": showing.status,
    "rescore": comparing.rescore,
    "retest": comparing.retest,
    "upload": exchanging.upload,
    "models": preparing.models,
    "settings": preparing.settings,
    "play": playing.play,
    "people": playing.people,
    "serve": playing.serve,
    "export": exchanging.export,
    "import": exchanging.import_,
    "preregister": comparing.preregister,
    "challenge": comparing.challenge,
    "trained-on": comparing.trained_on,
    "view": showing.view,
    "site": showing.site,
    "watch-checkpoints": playing.watch_checkpoints,
    "doctor": preparing.doctor,
    "fetch": preparing.fetch,
    "replay": comparing.retest,
}
"""Declares the arguments of each built-in command of ``cluster.cli``."""
