"""A small transformer that learns to play KUMO from nothing but trajectories (docs/kumo_trajectories.md)."""

from cluster.engines import torch_compat

torch_compat.apply()

from transformers.utils import logging  # noqa: E402 - only now can it be imported

logging.disable_progress_bar()
