"""The documentation: every page can be found, every variable stands on a page, every named function exists."""

import importlib
import re

import pytest

from tests.cluster.conftest import ROOT

DOCS = ROOT / "docs"
INTERNAL = {"api", "readme", "index"}
"""Pages that only the site has."""
NAMED = re.compile(r"`((?:cluster|evals|envs)[\w/]*\.py):([\w.]+)`")


def source_files():
    return [
        path for top in ("envs", "evals", "cluster") for kind in ("*.py", "*.sh") for path in (ROOT / top).rglob(kind)
    ] + [ROOT / "launch.sh"]


def test_every_page_is_linked_from_the_index():
    index = (DOCS / "index.md").read_text()
    linked = set(re.findall(r"\(([\w./-]+)\.md\)", index))
    assert {path.stem for path in DOCS.glob("*.md")} - INTERNAL <= linked


def test_every_page_stands_in_the_side_bar_of_the_site():
    parts = re.findall(r'"([a-z0-9_/ -]+)"', (DOCS / "conf.py").read_text())
    named = {page for part in parts for page in part.split()}
    assert {path.stem for path in DOCS.glob("*.md")} - INTERNAL <= named


def test_every_record_is_linked_from_the_page_of_records():
    linked = set(re.findall(r"\(([\w./-]+)\)", (DOCS / "records" / "README.md").read_text()))
    pages = {str(path.relative_to(DOCS / "records")) for path in (DOCS / "records").rglob("*.md")} - {"README.md"}
    assert pages <= linked


def test_every_variable_of_ours_stands_on_a_page():
    used = {name for path in source_files() for name in re.findall(r"RAYCADE_[A-Z_]+[A-Z]", path.read_text())}
    documented = set(re.findall(r"RAYCADE_[A-Z_]+[A-Z]", (DOCS / "environment_variables.md").read_text()))
    assert used == documented


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


@pytest.mark.parametrize(("file", "name"), NAMED.findall((DOCS / "where.md").read_text()))
def test_what_decides_is_where_the_page_says(file, name):
    found = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    for part in name.split("."):
        assert hasattr(found, part), f"{file} has no {name}"
        found = getattr(found, part)
