"""``raycade fetch``: download a model once, before any job needs it."""

from __future__ import annotations

import argparse
import shlex
import sys
from importlib import resources

from cluster.doctor.check import gib
from cluster.errors import UserError
from cluster.models.table import row_of, rows
from envs.suggest import did_you_mean


def main(options: argparse.Namespace) -> int:
    """Fetch, and say how a run uses it; returns the exit code.

    Raises:
        UserError: there is no such model, or it does not fit.
        RunFailedError: the hub stopped answering, or a file is not what its hash says.
    """
    id = id_of(options.model)
    try:
        from huggingface_hub import constants
        from huggingface_hub.utils import disable_progress_bars, logging  # type: ignore[attr-defined]

        from cluster.doctor import weights
    except ImportError:
        raise UserError("raycade fetch needs the package huggingface_hub, which comes with vLLM") from None
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # its warnings would stand between our lines
    if not sys.stderr.isatty():
        disable_progress_bars()
    listing = weights.listed(id, options.revision)
    weights.check_model(listing)
    weights.check_room(listing)
    size = sum(file.size for file in listing.files)
    print(
        f"{id} at commit {listing.commit}: {len(listing.files)} files, {gib(size)}; {gib(listing.lacking)} to download"
    )
    folder = weights.download(listing, lambda line: print(f"  {line}", flush=True))
    weights.pin(listing, options.revision)
    row = row_of(id)
    chosen = f"model={row.name}" if row is not None else f"model=hf model.engine.model={id}"
    print(
        f"\nIn {folder}\nA run that uses it, also without a network:\n"
        f"  export HF_HOME={shlex.quote(constants.HF_HOME)} HF_HUB_OFFLINE=1\n"
        f"  raycade run {chosen} model.engine.revision={listing.commit}"
    )
    return 0


def id_of(name: str) -> str:
    """The hub's id of a model that the table names, or of an id.

    Raises:
        UserError: it is neither, or a model without weights.
    """
    row = rows().get(name)
    if row is not None:
        return row.id
    files = resources.files("conf").joinpath("model").iterdir()
    if name in {path.name.removesuffix(".yaml") for path in files}:
        raise UserError(f"{name}: nothing to download; a run with model={name} needs no weights")
    is_path = name.startswith((".", "/"))
    if name.count("/") == 1 and not is_path:
        return name
    near = did_you_mean(name, rows())
    raise UserError(f"{name}: no model of `raycade models`, nor ORGANIZATION/NAME of the hub{near}")
