"""Episodes that are being played: the live log of a run, and what it says at the moment. No score is computed from it.

A driver writes recent turns of some of its running episodes to ``live/`` in the run directory (``cluster.live``), and takes an
episode out once its row is in the ledger. So whoever can read the run directory can look on, and the run serves nobody.

    lines     what one line of the log says
    running   the episodes that the lines up to here tell of
    log       a log that grows, read piece by piece within bounds
    progress  planned and finished episodes of each cell
"""

from evals.live.lines import Began, Ended, Gone, Line, Numbers, PlayedLine
from evals.live.log import FOLDER, LiveLog
from evals.live.progress import KEYS, CellProgress, progress_by_cell
from evals.live.running import RunningEpisode, RunningEpisodes

__all__ = [
    "FOLDER",
    "KEYS",
    "Began",
    "CellProgress",
    "Ended",
    "Gone",
    "Line",
    "LiveLog",
    "Numbers",
    "PlayedLine",
    "RunningEpisode",
    "RunningEpisodes",
    "progress_by_cell",
]
