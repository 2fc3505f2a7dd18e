"""CPU torch with CUDA builds of its companions: the patch reaches child processes and shadows no other sitecustomize."""

from __future__ import annotations

import importlib.util
import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from cluster.engines import torch_compat

PARENT = """
from cluster.engines import torch_compat
torch_compat.apply()
torch_compat.apply()
import subprocess, sys
sys.exit(subprocess.run([sys.executable, *sys.argv[1:]]).returncode)
"""


def in_a_child(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a child of a cured process."""
    command = [sys.executable, "-c", PARENT, *arguments]
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, env={**inherited, **environment}, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torchvision") is None, reason="torchvision is not installed")
def test_a_child_can_import_torchvision() -> None:
    script = "from torchvision.transforms.v2 import functional; import transformers.audio_utils; print('imported')"
    done = in_a_child("-c", script)
    assert done.stdout == "imported\n", done.stderr


def test_the_operators_are_declared_for_which_torchvision_registers_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    declared: list[str] = []

    def library(name: str, kind: str) -> SimpleNamespace:
        return SimpleNamespace(define=lambda schema: declared.append(f"{kind} {name}::{schema}"))

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(library=SimpleNamespace(Library=library)))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    runpy.run_path(str(Path(torch_compat.__file__).with_name("sitecustomize.py")))["declare_operators"]()
    schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    assert declared == [f"DEF torchvision::{name}{schema}" for name in ("nms", "qnms")]


def test_the_folder_is_put_first_and_the_finder_added_once(monkeypatch: pytest.MonkeyPatch) -> None:
    here, others = str(Path(torch_compat.__file__).parent), [each for each in sys.meta_path if type(each) is not type]
    monkeypatch.setattr(sys, "meta_path", [*others])
    found = []
    for before in ("", f"/a{os.pathsep}{os.pathsep}/b", f"/a{os.pathsep}{here}"):
        monkeypatch.setenv("PYTHONPATH", before)
        torch_compat.apply()
        found.append([path.replace(here, "here") for path in os.environ["PYTHONPATH"].split(os.pathsep)])
    assert found == [["here"], ["here", "/a", "/b"], ["/a", "here"]]
    assert [each.__name__ for each in sys.meta_path[: len(sys.meta_path) - len(others)]] == ["CompanionFinder"]


def test_a_package_whose_extension_does_not_load_has_declared_operators_or_stays_empty(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tried: list[str] = []

    def load_library(path: str) -> None:
        tried.append(Path(path).name)
        if "broken" in path:
            raise OSError

    torch = SimpleNamespace(ops=SimpleNamespace(load_library=load_library))
    torch.library = SimpleNamespace(Library=lambda *_: SimpleNamespace(define=lambda schema: None))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    finder = runpy.run_path(str(Path(torch_compat.__file__).with_name("sitecustomize.py")))["CompanionFinder"]
    assert sys.meta_path[0] is finder
    made = []
    packages = {"torchvision": "_C.so", "torchaudio": "lib/_torchaudio.so", "torchcodec": "libtorchcodec_image1.so"}
    for state in ("sound", "broken"):
        for name, extension in packages.items():
            file = tmp_path / state / name / extension
            file.parent.mkdir(parents=True)
            file.touch()
            (tmp_path / state / name / "__init__.py").write_text("found = 1")
            spec = finder.find_spec(name, [str(tmp_path / state)])
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            made.append((hasattr(module, "found"), hasattr(module, "_declared_operators"), len(module.__path__)))
    assert made == [(True, False, 1)] * 3 + [(True, True, 1), (False, False, 0), (False, False, 0)]
    assert tried == [Path(each).name for each in packages.values()] * 2
    assert finder.find_spec("torchvision", [str(tmp_path)]) is None
    assert finder.find_spec("other", [str(tmp_path / "sound")]) is None


@pytest.mark.slow
def test_the_path_is_extended_once() -> None:
    done = in_a_child("-c", "import os; print(os.environ['PYTHONPATH'])", PYTHONPATH="/elsewhere")
    cure, elsewhere = done.stdout.strip().split(os.pathsep)
    assert (Path(cure).name, elsewhere) == ("torch_compat", "/elsewhere")


@pytest.mark.slow
def test_another_start_up_hook_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('theirs')\n")
    done = in_a_child("-c", "print('done')", PYTHONPATH=str(tmp_path))
    assert done.stdout.splitlines()[-2:] == ["theirs", "done"]


@pytest.mark.slow
def test_a_child_that_needs_no_torch_does_not_load_it() -> None:
    done = in_a_child("-c", "import sys; print('torch' in sys.modules)")
    assert done.stdout == "False\n"
