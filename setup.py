"""Which packages are installed, and where; all other metadata is in pyproject.toml.

A checkout (``pip install --editable``) is used as it stands. In a wheel, the packages that have names as common as ``evals``
are below ``raycade._packages`` (see raycade/__init__.py), so that none of another distribution is written over.
"""

import sys
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

INNER = ("envs", "evals", "cluster", "conf")
packages = find_packages(include=["raycade*"])
inner = find_packages(include=[pattern for name in INNER for pattern in (name, f"{name}.*")])


class BuildWheel(build_py):
    """Writes ``raycade.pth`` besides, through which type checkers find the inner packages."""

    def run(self) -> None:
        """Copy the packages."""
        super().run()
        (Path(self.build_lib) / "raycade.pth").write_text("raycade/_packages\n")


if "editable_wheel" in sys.argv:
    setup(packages=packages + inner)
else:
    setup(
        packages=packages + [f"raycade._packages.{name}" for name in inner],
        package_dir={f"raycade._packages.{name}": name for name in INNER},
        cmdclass={"build_py": BuildWheel},
    )
