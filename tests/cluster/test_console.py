"""What a run prints at its end: the headline tables, and the names of all others."""

from cluster import console
from evals.tables import Table


def table(name: str, rows: int = 1, headline: bool = False) -> Table:
    return Table(
        name, f"Title of {name}", ("a column that is wide enough",), tuple((n,) for n in range(rows)), headline=headline
    )


def test_a_summary_shows_headline_tables_and_names_the_others(capsys):
    console.show_summary([table("first", headline=True), table("second"), table("third", headline=True)])
    out = capsys.readouterr().out
    assert "Title of first" in out and "Title of third" in out and "Title of second" not in out
    assert "1 more table (" in out and "--full" in out


def test_a_headline_table_that_is_too_long_is_named_instead(capsys):
    console.show_summary([table("long", console.LONGEST_SHOWN + 1, True), table("fits", console.LONGEST_SHOWN, True)])
    out = capsys.readouterr().out
    assert "Title of fits" in out and "Title of long" not in out and "1 more" in out


def test_everything_is_shown_on_request_and_nothing_is_named_when_nothing_is_left(capsys):
    console.show([table("a"), table("b")])
    console.show_summary([table("c", headline=True)])
    out = capsys.readouterr().out
    assert all(f"Title of {name}" in out for name in "abc") and "more tables" not in out
