"""The reference pages are made from the code, and current."""

import pytest

from docs.generate import PAGES, ROOT


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_current(name):
    written = (ROOT / "docs" / name).read_text()
    assert written == PAGES[name](), "run: python -m docs.generate"
