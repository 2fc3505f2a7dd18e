"""The figures of shortcut players in docs/validity_kumo.md are those of today's domains and players."""

import pytest

from benchmarks import kumo_validity
from envs.kumo import DIFFICULTIES
from evals.suites.kumo import KumoSuite


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
@pytest.mark.parametrize("domain", KumoSuite().domains)
def test_the_page_says_what_naming_at_once_wins(domain, difficulty, monkeypatch):
    _, _, figures = kumo_validity.PAGE.read_text(encoding="utf-8").partition(kumo_validity.MARK)
    rows = [line.strip("| ").split(" | ") for line in figures.splitlines() if line.startswith("|")]
    place = rows[0].index("names_at_once")
    success, actions = (row[place] for row in rows if row[:2] == [domain, difficulty])
    player = {"names_at_once": kumo_validity.PLAYERS["names_at_once"]}
    monkeypatch.setattr(kumo_validity, "PLAYERS", player)
    found = kumo_validity.measure(domain, difficulty, kumo_validity.TASKS[difficulty])["names_at_once"]
    assert (success, actions) == (f"{found.success:.2f}", f"{found.actions:.2f}")
