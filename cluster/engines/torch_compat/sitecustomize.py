"""Imported by Python at startup if this folder is on the PYTHONPATH (see this package's ``__init__``)."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any

EXTENSIONS = {"torchvision": "_C*.so", "torchaudio": "lib/_torchaudio*.so", "torchcodec": "libtorchcodec_image*.so"}
"""The compiled extension that each package loads when it is imported."""
NMS = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


class CompanionFinder:
    """Finds torch's companion packages, to be loaded by ``CompanionLoader``."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec of a companion package; None for all others."""
        if name not in EXTENSIONS:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = CompanionLoader(name, spec.origin)
        return spec


class CompanionLoader(SourceFileLoader):
    """Executes the package as usual if its compiled extension loads.

    Otherwise, the operators that torchvision's Python code expects are declared, and the audio and video packages stay
    empty: importing them works, importing anything from them raises ImportError.
    """

    def exec_module(self, module: ModuleType) -> None:
        """Execute the package."""
        if extension_loads(Path(self.path).parent, EXTENSIONS[self.name]):
            super().exec_module(module)
        elif self.name == "torchvision":
            library = declare_operators()
            super().exec_module(module)
            # The operators live as long as the object that declared them.
            module._declared_operators = library  # type: ignore[attr-defined]
        else:
            module.__path__ = []


def extension_loads(package: Path, pattern: str) -> bool:
    """Whether all compiled extensions of ``package`` that match ``pattern`` can be loaded with this torch."""
    import torch

    try:
        for extension in package.glob(pattern):
            torch.ops.load_library(str(extension))  # type: ignore[no-untyped-call]
    except OSError:
        return False
    return True


def declare_operators() -> Any:
    """Declare the operators for which torchvision registers Python kernels on import."""
    import torch

    library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    for operator in ("nms", "qnms"):
        library.define(operator + NMS)  # type: ignore[no-untyped-call]
    return library


def run_shadowed() -> None:
    """Run the ``sitecustomize`` that this one shadows, if there is one."""
    here = Path(__file__).parent
    spec = PathFinder.find_spec("sitecustomize", [entry for entry in sys.path if Path(entry) != here])
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


sys.meta_path.insert(0, CompanionFinder)  # type: ignore[arg-type]
if __name__ == "sitecustomize":
    run_shadowed()
