"""What a run has spent: kept over sessions and deaths, never lowered, never guessed."""

import asyncio
from pathlib import Path

import pytest

from cluster.engines.spend import Spend, SpendCapReachedError
from cluster.storage.spending import MergedPart, Spenders, Spending, SpendingJournal, read_spending, write_spending
from tests.recorded_disk import RecordedDisk

# --- what is asked for is written before it is asked for ---


async def session(
    run: Path, cap: float, requests: int, at_once: int, sent, price=1.0, estimated=1.0, dying=None
) -> None:
    """Ask through an engine's ``Spend`` while its account is kept, as the replica pool does; until ``dying`` is set."""
    journal = SpendingJournal(run)
    spend = Spend(1.0, 1.0, cap, until_billed=1.0)
    spend.add_elsewhere(journal.now.total, journal.now.highest)
    await spend.settle(0, 0.0)

    async def keep():
        covered = 0
        while True:
            account = await spend.settle(covered, 0.01)
            journal.note("engine", Spending(account.spent, account.in_flight, account.highest))
            journal.write()
            covered = account.number

    async def ask(places):
        async with places:
            async with spend.payment(estimated) as payment:
                sent(price)
                if dying is not None and dying.is_set():
                    keeping.cancel()
                    raise ConnectionError
                await asyncio.sleep(0)
                payment.price = price

    keeping = asyncio.create_task(keep())
    places = asyncio.Semaphore(at_once)
    asking = [asyncio.create_task(ask(places)) for _ in range(requests)]
    dead = asyncio.create_task((dying or asyncio.Event()).wait())
    await asyncio.wait([dead, asyncio.gather(*asking, return_exceptions=True)], return_when="FIRST_COMPLETED")
    if not dead.done():
        await asyncio.sleep(0.03)  # the last answers are written on the timer
    for task in (keeping, dead, *asking):
        task.cancel()
    await asyncio.gather(keeping, dead, *asking, return_exceptions=True)


@pytest.mark.parametrize(("price", "estimated"), [(1.0, 1.0), (0.25, 1.0)])
@pytest.mark.parametrize("at_once", [1, 3])
async def test_a_death_at_any_write_forgets_no_request_and_counts_at_most_what_was_in_flight(
    tmp_path, monkeypatch, at_once, price, estimated
):
    (tmp_path / "run").mkdir()
    disk = RecordedDisk(tmp_path / "run", monkeypatch)
    await session(disk.root, 10.0, 5, at_once, disk.note, price, estimated)
    assert read_spending(disk.root) == Spending(5 * price, 0.0, price)
    monkeypatch.undo()
    seen = 0
    for state, paid in disk.states(tmp_path / "states"):
        noted = read_spending(state).total
        assert sum(each or 0 for each in paid) <= noted <= 5 * price + at_once * estimated
        seen += 1
    assert seen >= 20


@pytest.mark.parametrize(("deadly", "estimated"), [(1, 1.0), (1, 3.0), (2, 0.5), (3, 0.5), (4, 1.0)])
async def test_the_cap_holds_over_any_number_of_deaths(tmp_path, deadly, estimated):
    """Each session dies when it has sent its n-th request, whose answer never comes; then the next one goes on."""
    paid = 0
    for _ in range(12):
        dying = asyncio.Event()
        left = deadly

        def sent(price, dying=dying):
            nonlocal paid, left
            paid += 1
            left -= 1
            if not left:
                dying.set()

        running = asyncio.create_task(session(tmp_path, 8.0, deadly + 1, 1, sent, 1.0, estimated, dying))
        await asyncio.wait_for(running, 10)
    assert paid <= 8 <= read_spending(tmp_path).total, "eight answers at most were paid, none of them forgotten"


async def test_no_request_is_sent_before_its_reservation_is_covered():
    spend, sent = Spend(1.0, 1.0, 10.0, until_billed=1.0), []

    async def ask(estimated):
        async with spend.payment(estimated) as payment:
            sent.append(estimated)
            payment.price = estimated

    await spend.settle(0, 0.0)
    free, first, second = (asyncio.create_task(ask(estimated)) for estimated in (0.0, 1.0, 2.0))
    account = await spend.settle(0, 60.0)  # answers as soon as someone waits
    await asyncio.wait([free])
    assert (account.spent, account.in_flight, account.number, sent) == (0.0, 3.0, 3, [0.0])
    await spend.settle(2, 0.0)
    await asyncio.wait([first])
    assert sent == [0.0, 1.0] and not second.done()
    second.cancel()
    await asyncio.wait([second])
    account = await spend.settle(2, 0.0)
    assert (account.spent, account.in_flight, account.highest) == (1.0, 0.0, 1.0)
    later = asyncio.create_task(ask(0.5))
    assert (await spend.settle(3, 60.0)).in_flight == 1.0, "another request may cost as much as the dearest one"
    later.cancel()
    await asyncio.wait([later])


async def test_what_was_dear_in_an_earlier_session_is_reserved_in_this_one():
    spend = Spend(1.0, 1.0, 10.0, until_billed=1.0)
    spend.add_elsewhere(8.5, 2.0)
    await spend.settle(0, 0.0)
    async with asyncio.timeout(5):
        waiting = asyncio.create_task(spend.payment(0.1).__aenter__())
        assert (await spend.settle(0, 60.0)).in_flight == 2.0
    waiting.cancel()
    spend.add_elsewhere(10.0)
    with pytest.raises(SpendCapReachedError):
        await spend.payment(0.0).__aenter__()


def test_a_retest_keeps_its_name_on_disk_and_in_later_sessions(tmp_path):
    write_spending(tmp_path, Spending(2.0))
    retest = SpendingJournal(tmp_path, retest_of=Spenders(("first",), "place"))
    retest.note("retest", Spending(0.5))
    retest.write()
    (name,) = read_spending(tmp_path).retests
    assert read_spending(tmp_path).parts(Spenders(("first",), "place")) == (
        MergedPart(("first",), 2.0),
        MergedPart((name,), 0.5),
    )
    later = SpendingJournal(tmp_path)
    later.note("engine", Spending(1.0))
    later.write()
    assert read_spending(tmp_path).parts(Spenders(("first", "later"), "place"))[1] == MergedPart(("later", name), 1.5)
