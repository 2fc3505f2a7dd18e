"""The arguments of commands that carry runs to other programs and back."""

import argparse
from pathlib import Path
from typing import Final


def upload(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade upload``."""
    parser.description = (
        "Scores a run and sends scores, tables, sampled episodes and artifacts to its tracker, under the id that the run "
        "itself would use. It works for complete, stopped and failed runs; settings of the tracker that are not named are "
        "those of the run, else those of conf/tracker/wandb.yaml."
    )
    parser.add_argument("run_dir", type=Path, metavar="RUN")
    parser.add_argument("overrides", nargs="*", metavar="tracker.KEY=VALUE")


EXPORT_FORMATS: Final = {
    "every_eval_ever": "Every Eval Ever, schema 0.3: aggregate JSON and one line for each episode",
    "inspect": "inspect_ai's .eval, chats with pictures; `inspect view` opens it",
    "huggingface": "a dataset's folder to upload: Parquet with images, card, scores for model pages",
    "lm_eval": "results and samples as lm-evaluation-harness writes them",
}


def export(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade export``."""
    formats = "; ".join(f"{name}: {what}" for name, what in EXPORT_FORMATS.items())
    parser.description = (
        f"Writes a run, finished or not, in a format of others. {formats}. Each file says what is left out. Keys, hosts and "
        "paths of the configuration stay here; what models wrote is data and leaves. Nothing is uploaded."
    )
    parser.add_argument("run_dir", type=Path, metavar="RUN")
    parser.add_argument("--to", required=True, choices=EXPORT_FORMATS, metavar="FORMAT", help=", ".join(EXPORT_FORMATS))
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="a new or empty folder")
    parser.add_argument(
        "--repo", default="", metavar="ORGANIZATION/NAME", help="of the dataset on the Hub, for scores on model pages"
    )


def import_(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade import``."""
    parser.description = (
        "Makes a run of files that `raycade export` wrote, row for row, or of another harness's log of our games: an .eval of "
        "inspect_ai, or an aggregate .json of Every Eval Ever with its samples beside it. Of a log from elsewhere, each "
        "sample's metadata must name suite, task, level, mode and index; the suite and its settings are given as for `raycade "
        "run`, and the replies are read by the suite's own rules. A sample whose prompts are not the suite's is refused. "
        "`raycade report` and `raycade compare` read the run; its session says where it is from."
    )
    parser.add_argument(
        "files", nargs="+", metavar="FILE|suite.KEY=VALUE", help="files, and for logs from elsewhere suite=..."
    )
    parser.add_argument("--out", required=True, type=Path, metavar="RUN", help="a new run directory")
    parser.set_defaults(overrides=[])  # those behind an option
    parser.add_argument(
        "--player", default="", metavar="NAME", help="what the player of a log from elsewhere is called"
    )
