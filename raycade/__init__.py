"""The public names of raycade: ``raycade.suite``, ``engine``, ``kidgym``, ``testing`` and ``gymnasium``.

For notebooks there are ``raycade.run(PATH)`` and ``raycade.runs(FOLDER)`` (docs/notebooks.md).

Packages of others import from here. A name that is listed in ``__all__`` of one of these modules keeps its meaning within a
minor version; before it is removed or changed, one minor version warns about its use (``DeprecationWarning``) and the
change log names what to use instead. Where a name is defined may change at any time.

A wheel holds the packages ``envs``, ``evals``, ``cluster`` and ``conf`` in ``raycade/_packages``, so that it can be installed
beside others of these names, such as OpenAI's ``evals``. Importing ``raycade`` puts that folder first on the import path of
this process and of its children. A checkout has no such folder. Type checkers find it through ``raycade.pth``, which puts it
last on the path: there, packages of others come first.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cluster.notebook import run, runs

__all__ = [
    "RaycadeEnv",
    "RaycadeHarness",
    "RaycadeTaskset",  # what verifiers looks for where an environment is called raycade
    "run",
    "runs",
]
PACKAGES = ("envs", "evals", "cluster", "conf")


def _use_packages(folder: Path) -> None:
    """Put the packages of a wheel first on the import path, here and in child processes such as Ray's workers.

    Raises:
        ImportError: another package of one of these names has been imported before.
    """
    for name in PACKAGES:
        found = getattr(sys.modules.get(name), "__file__", None)
        if found is not None and not Path(found).is_relative_to(folder):
            raise ImportError(f"raycade has a package {name!r} of its own, but {found} was imported before it")
    sys.path[:] = [str(folder), *(path for path in sys.path if path != str(folder))]
    inherited = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if str(folder) not in inherited:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *inherited])


_folder = Path(__file__).with_name("_packages")
if _folder.is_dir():
    _use_packages(_folder)


def __getattr__(name: str) -> Any:
    """What is imported only when it is asked for: runs in notebooks, and the classes for verifiers."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in ("run", "runs"):
        from cluster import notebook

        return getattr(notebook, name)
    from evals.training import verifiers_env

    return getattr(verifiers_env, name)
