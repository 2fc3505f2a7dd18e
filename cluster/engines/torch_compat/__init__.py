"""Makes a CPU build of torch work with CUDA builds of its companion packages, here and in all child processes.

With the CPU build of vLLM, pip installs a torchvision, a torchaudio and a torchcodec that were compiled for CUDA. Their
extensions cannot be loaded, so importing them fails (``operator torchvision::nms does not exist``), and so does importing
transformers or vLLM. vLLM's image processors only use the pure-Python part of torchvision, which works once the missing
operators are declared; audio and video are not needed.

The packages are imported in several processes: the engine's, its EngineCore, its workers, and a child that inspects the model.
Putting this package's folder on the PYTHONPATH reaches them all, because it contains a ``sitecustomize``, which Python
imports at startup.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

_HERE = Path(__file__).parent


def apply() -> None:
    """Patch this process and its future children; call this before importing transformers or vllm.

    Has no effect if the extensions load, or if the packages are never imported.
    """
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if str(_HERE) not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(_HERE), *paths])
    if not any(getattr(finder, "__name__", "") == "CompanionFinder" for finder in sys.meta_path):
        spec = importlib.util.spec_from_file_location("raycade_torch_compat", _HERE / "sitecustomize.py")
        assert spec is not None and spec.loader is not None
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
