"""Markdown as HTML for the page: raw HTML is shown as text, and no link leads to a script."""

from __future__ import annotations

from markdown_it import MarkdownIt

_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")


def rendered(markdown: str) -> str:
    r"""Markdown (CommonMark and tables, without pictures) as HTML.

    >>> rendered("*Hello* <script>")
    '<p><em>Hello</em> &lt;script&gt;</p>\n'
    """
    return str(_MARKDOWN.render(markdown))
