"""The arguments of commands that prepare runs: models, settings, machines."""

import argparse

from cluster.completion import complete_overrides
from cluster.models.grades import GRADES


def models(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade models``."""
    parser.description = (
        "Lists what model=NAME can name: parameters, GiB of the weights, GPUs of 48, 80 and 141 GB that a replica needs, "
        "pictures, thinking, cache, and how far it was tried. Any other model of the hub: model=hf "
        "model.engine.model=ORGANIZATION/NAME."
    )
    parser.add_argument("words", nargs="*", metavar="WORD", help="only models whose name, id, family or license has it")
    parser.add_argument("--fits", type=float, metavar="GB", help="only models that fit one GPU of so many GB")
    parser.add_argument("--vision", action="store_true", help="only models that read pictures")
    parser.add_argument("--grade", choices=GRADES, help="only models that came at least as far")
    parser.add_argument("--json", action="store_true", help="print all columns as JSON")
    parser.add_argument(
        "--prove",
        metavar="NAME",
        help="try a model without its weights: shrunken, random, on the real engine (a minute; needs vLLM)",
    )


def settings(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade settings``."""
    parser.description = (
        "Lists the keys of a suite, model, tracker or cluster: type and bounds, default, meaning. Suites and engines of "
        "other packages are included. All keys of raycade's own: docs/configuration.md."
    )
    parser.add_argument(
        "groups", nargs="+", metavar="GROUP=NAME", help="suite=kumo, model=tiny, tracker=wandb, cluster"
    )
    parser.add_argument(
        "--schema", action="store_true", help="print a JSON schema, by which editors check a file of your own in conf/"
    )


def doctor(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade doctor``."""
    parser.description = (
        "Tries what a run with these overrides needs: packages, keys, memory, limits, file systems, ports, the model's files, "
        "GPUs one by one with a small engine, Ray and Slurm. With cluster.address=... it looks at every node of that Ray "
        "cluster, within a Slurm job at every node of the job. Exit code 1 if a check fails."
    )
    parser.add_argument("--quick", action="store_true", help="start neither an engine nor Ray (a few seconds)")
    parser.add_argument("--json", action="store_true", help="print all findings as JSON")
    parser.add_argument(
        "--node", help=argparse.SUPPRESS
    )  # this call is a part of another one, which looks at many nodes
    complete_overrides(parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE"))


def fetch(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade fetch``."""
    parser.description = (
        "Downloads a model into the cache of Hugging Face (HF_HOME), checks the hash of every file and pins the commit. MODEL "
        "is a name of `raycade models`, or ORGANIZATION/NAME of the hub. A stopped download goes on with the bytes that are "
        "there. What does not fit the disk is refused before it starts."
    )
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--revision", default="main", metavar="R", help="branch, tag or commit (default main)")
