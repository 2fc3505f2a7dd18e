"""Lets a CPU build of torch live with CUDA builds of its companion packages, here and in every child process.

Beside the CPU build of vLLM, pip finds only a torchvision, a torchaudio and a torchcodec that were compiled for CUDA.
Their compiled extensions cannot load there, so importing them fails (``operator torchvision::nms does not exist``), and
importing transformers or vLLM with them. Of torchvision, vLLM's image processors use nothing but pure Python, which works
once the missing operators are declared; sound and video are not needed at all.

The packages are imported in several processes: the one that holds the engine, the engine's core, its workers, and a child that
inspects the model. The folder of this package on the PYTHONPATH reaches them all, for it holds a ``sitecustomize``,
which Python imports as it starts.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

_HERE = Path(__file__).parent


def apply() -> None:
    """Cure this process and the children it will start; call it before transformers or vllm is imported.

    Nothing changes where the extensions load, or where the packages are never imported.
    """
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if str(_HERE) not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(_HERE), *paths])
    if not any(getattr(finder, "__name__", "") == "CompanionFinder" for finder in sys.meta_path):
        spec = importlib.util.spec_from_file_location("raycade_torch_compat", _HERE / "sitecustomize.py")
        assert spec is not None and spec.loader is not None
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
