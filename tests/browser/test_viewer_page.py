"""The viewer in a real browser: filter, step, compare, follow links, keyboard only; hostile text; accessibility."""

import json
import re
import time
from contextlib import suppress
from urllib.parse import parse_qs, urlsplit

import pytest

from cluster.live.writer import GrowingLog
from cluster.storage.lock import RunLock
from cluster.storage.stored_run import Run
from evals.ledger.parts import write_part
from evals.live import Began, PlayedLine
from evals.notes.web import ViewerNotes
from evals.viewer import server
from evals.viewer.index import EpisodeIndex
from evals.viewer.runs import ViewedRun
from evals.viewer.server import Viewer
from tests.browser.conftest import serving
from tests.viewer_runs import HOSTILE, MEGABYTE, add_part, calm_rows, hostile_rows, small_suite, viewed, write_run

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed here")
expect = playwright.expect
expect.set_options(timeout=20_000)  # what a page shows, it shows some time after the key or click that asked for it
pytestmark = pytest.mark.browser


VERSUS = "first=hostile&second=perfect+play+(oracle)"


def everything():
    return len(calm_rows()[0]) + len(hostile_rows()[0])


def until(page, predicate, arg=None):
    """Wait for an expression to hold; the page's own security policy forbids ``wait_for_function``."""
    for _ in range(400):
        if page.evaluate(predicate, arg):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never came true: {predicate}")


def expect_count(page, count):
    until(
        page,
        "count => document.querySelector('.count')?.textContent.startsWith(count + ' episodes') ?? false",
        str(count),
    )


def address(page):
    """What the address says; one suite stands in its path."""
    parts = urlsplit(page.url)
    suite = {"suite": parts.path.removeprefix("/suite/")} if parts.path.startswith("/suite/") else {}
    return suite | {name: values[0] for name, values in parse_qs(parts.query).items()}


def site(page):
    """Where the viewer is, without a page."""
    return "http://" + urlsplit(page.url).netloc


def filtered(page, **choices):
    """The page with these filters in its address, loaded anew."""
    query = "&".join(f"{name}={value}" for name, value in choices.items())
    page.goto(f"{site(page)}/episodes?{query}")
    page.wait_for_selector(".row .outcome")


def open_first(page):
    page.click(".row >> nth=0")
    page.wait_for_selector(".episode h2")


def open_comparison(page):
    page.goto(f"{site(page)}/compare?{VERSUS}")
    # A game is asked for once it comes into sight; what loads above it may move it out of sight again.
    for _ in range(20):
        page.locator(".flip").first.scroll_into_view_if_needed()
        with suppress(playwright.TimeoutError):
            page.wait_for_selector(".flip img", timeout=2_000)
            return
    raise AssertionError("no game of the comparison shows a picture")


def cells_of(page, column):
    """What the rows in sight show in a column."""
    heads = page.locator("[role=columnheader]").all_inner_texts()
    place = next(number for number, text in enumerate(heads) if text.startswith(column))
    return page.locator(f".row > div:nth-child({place + 1})").all_inner_texts()


def eventually(page, look, expected):
    """Waits until a look at the page gives what is expected; the rows of old filters stay until the new ones are here."""
    for _ in range(400):
        if (found := look()) == expected:
            return
        page.wait_for_timeout(50)
    assert found == expected


def expect_cells(page, column, expected):
    eventually(page, lambda: set(cells_of(page, column)), expected)


def test_the_list_filters_sorts_and_searches(page):
    assert "token" not in page.url
    expect_count(page, everything())
    page.select_option("label:has-text('suite') select", "kumo")
    expect_count(page, 12)
    expect_cells(page, "suite", {"kumo"})
    page.select_option("label:has-text('outcome') select", "won")
    until(page, "[...document.querySelectorAll('.row .outcome')].every(it => it.textContent.includes('won'))")
    page.click("[role=columnheader] button:has-text('steps')")
    page.wait_for_selector("[role=columnheader][aria-sort=ascending]")
    eventually(page, lambda: (steps := cells_of(page, "steps")) and steps == sorted(steps, key=int), True)
    assert address(page) == {"suite": "kumo", "won": "1", "sort": "steps"}
    page.click("text=clear filters")
    expect_count(page, everything())
    page.fill("text=Text in prompts and replies", "all work and NO play")
    until(page, "!document.querySelector('.count')?.textContent.includes('searching')")
    until(page, "[...document.querySelectorAll('.row')].every(it => it.textContent.includes('hostile'))")


def test_a_click_on_a_cell_filters_the_list_and_another_one_undoes_it(page):
    cell = ".heat button[aria-label^='CL,']"
    said = page.get_attribute(cell, "aria-label")
    page.click(cell)
    page.wait_for_selector(".heat button[aria-pressed=true]")
    expect_count(page, 2)
    assert "of 2 episodes won" in said, "what the cell says is what the list holds"
    expect_cells(page, "task", {"CL"})
    expect_cells(page, "player", {"random"})
    assert address(page)["task"] == "CL" and address(page)["level"] == "1"
    page.go_back()
    expect_count(page, everything())
    page.go_forward()
    expect_count(page, 2)
    page.click(".heat button[aria-pressed=true]")
    expect_count(page, everything())


def test_the_heat_map_shows_one_player_of_one_run_the_first_planned_first(page):
    page.wait_for_selector(".heat caption")
    captions = page.locator(".heat caption").all_inner_texts()
    assert captions and all(text.endswith("random · calm") for text in captions)
    page.select_option(".heat label.across:last-child select", label="oracle · calm")
    until(page, "[...document.querySelectorAll('.heat caption')].every(it => it.textContent.endsWith('oracle · calm'))")
    shares = page.locator(".heat table button").all_inner_texts()
    assert shares and set(shares) == {"100"}, "no other player's losses are averaged in"


def test_an_episode_that_was_found_by_its_text_opens_at_the_step_that_contains_it(page):
    filtered(page, text="all work and NO play")
    page.wait_for_selector(".row .outcome")
    open_first(page)
    page.wait_for_selector("mark")
    expect(page.locator("mark").first).to_have_text("all work and no play", ignore_case=True)
    expect(page.locator(".steps [aria-current]")).to_have_text(page.locator(".steps button.found").first.inner_text())


def test_causes_of_failure_filter_and_link(page):
    page.click("text=causes of failure (2)")
    page.click(".causes td button")
    expect_count(page, 2)
    expect_cells(page, "outcome", {"! failed"})
    page.click(".causes a >> nth=0")
    expect(page.locator(".episode .error")).to_contain_text("refused after")


@pytest.mark.parametrize("suite", ["kumo", "kidgym", "multistar"])
def test_an_episode_of_each_suite_is_stepped_through(page, suite):
    filtered(page, suite=suite, player="oracle")
    open_first(page)
    count = page.locator("ol.steps li").count()
    for number in range(1, count + 1):
        expect(page.locator(".stepper")).to_contain_text(f"step {number} of {count}")
        decided = page.inner_text(".decision div:nth-child(1) dd")
        assert decided == page.inner_text(".decision div:nth-child(3) dd") != ""
        for picture in page.locator("img").all():
            assert picture.evaluate("it => it.decode().then(() => it.naturalWidth)") > 0
        if suite == "kumo":
            assert page.locator(".remaining li").count() > 1 and page.locator(".book tr").count() > 1
        page.keyboard.press("ArrowRight")
    if suite == "kumo":
        expect(page.locator(".book tr.used")).to_have_count(count - 1)
    if suite == "multistar":
        assert page.locator(".graph .node").count() == 8 and page.locator(".bars tr").count() > 2
        page.click(".graph .node >> nth=1")
        eventually(page, lambda: address(page)["step"], "2")
        expect(page.locator(".graph .node[aria-current]")).to_have_count(1)


def test_the_whole_prompt_is_shown_on_demand(page):
    filtered(page, suite="kumo", player="oracle")
    open_first(page)
    page.keyboard.press("End")
    expect(page.locator("ol.steps li:last-child [aria-current]")).to_have_count(1)
    new = page.locator(".said").count()
    assert "guidebook" not in page.inner_text(".asked")
    page.keyboard.press("p")
    page.wait_for_selector(".asked h3:has-text('whole prompt')")
    expect(page.locator(".asked")).to_contain_text("guidebook")
    assert page.locator(".said").count() > new


def test_two_runs_stand_side_by_side_on_the_same_game(page):
    filtered(page, suite="kidgym", player="random", task="CL")
    open_first(page)
    offered = page.locator(".beside option").all_inner_texts()
    assert any("hostile · wild" in text for text in offered)
    page.select_option(".beside select", label=next(text for text in offered if "oracle" in text))
    page.wait_for_selector(".panes.two .episode >> nth=1")
    pictures = page.locator(".asked img").evaluate_all("all => all.map(it => new URL(it.src).pathname)")
    assert len(pictures) == 1 and page.locator(".question .asked").count() == 1, (
        "what both were asked stands there once"
    )
    # They open at the first step that differs.
    opened = int(page.locator("ol.steps [aria-current] >> nth=0").inner_text())
    page.keyboard.press("ArrowRight")
    expect(page.locator("ol.steps [aria-current]")).to_have_text([str(opened + 1)] * 2)
    page.reload()
    page.wait_for_selector(".panes.two .episode >> nth=1")


def test_games_that_another_player_ended_otherwise_open_side_by_side(page):
    page.select_option("label:has-text('compared with') select", label="oracle · calm")
    page.check("text=outcome differs")
    page.select_option("label:has-text('player') select", "random")
    until(page, "[...document.querySelectorAll('.row')].every(it => it.textContent.includes('random'))")
    expect_cells(page, "outcome", {"✗ lost"})
    expect_cells(page, "compared", {"✓ won"})
    open_first(page)
    page.wait_for_selector(".panes.two .episode >> nth=1")
    expect(page.locator(".episode h2")).to_have_text([re.compile("^random"), re.compile("^oracle")])


def test_a_link_leads_to_the_same_step(page, chromium):
    filtered(page, suite="multistar", player="random")
    open_first(page)
    page.click("ol.steps li:nth-child(3) button")
    expect(page.locator(".stepper")).to_contain_text("step 3 of")
    link, title = page.url, page.title()
    other = page.context.new_page()
    other.goto(link)
    expect(other.locator(".stepper")).to_contain_text("step 3 of")
    expect(other).to_have_title(title)


def test_an_episode_is_copied_as_json_python_command_and_link(page):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    filtered(page, suite="kidgym", player="random")
    open_first(page)
    copied = {}
    for what in ("JSON", "Python", "command", "link"):
        page.click(f".copy button:has-text('{what}')")
        page.wait_for_selector(f".copy >> text={what} copied")
        copied[what] = page.evaluate("navigator.clipboard.readText()")
    episode = json.loads(copied["JSON"])["row"]["episode_id"]
    assert all(episode in text for text in copied.values())
    compile(copied["Python"], "copied", "exec")
    printed: list[str] = []
    exec(copied["Python"], {"print": lambda *words: printed.append(words)})
    assert printed
    assert re.fullmatch(r"raycade view \S+ --episode \w+", copied["command"]) and copied["link"] == page.url


def test_the_keyboard_alone_suffices(page):
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('role')") == "grid":
            break
    page.keyboard.press("End")
    expect(page.locator(f"#row-{everything() - 1}[aria-selected=true]")).to_have_count(1)
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    expect(page.locator("[role=grid]")).to_have_attribute("aria-activedescendant", "row-1")
    expect(page.locator("#row-1 .outcome")).to_have_count(1)
    page.keyboard.press("Enter")
    page.wait_for_selector(".episode h2")
    first = page.inner_text(".position")
    page.keyboard.press("j")
    until(page, "old => document.querySelector('.position').textContent !== old", first)
    page.keyboard.press("k")
    until(page, "old => document.querySelector('.position').textContent === old", first)
    page.keyboard.press("Escape")
    page.wait_for_selector("[role=grid]")


def test_rows_are_links_and_going_back_leads_to_where_the_list_stood(page):
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the first stop is the link that skips to the list
    expect(page.locator("[role=grid]")).to_be_focused()
    page.keyboard.press("End")
    last = page.locator(f"#row-{everything() - 1}")
    expect(last).to_have_attribute("aria-selected", "true")
    stood = page.evaluate("document.querySelector('[role=grid]').scrollTop")
    with page.context.expect_page() as opened:
        last.locator("a").click(modifiers=["Control"])
    expect(opened.value.locator(".position")).to_contain_text(f"{everything()} of")
    for way in ("Escape", "Alt+ArrowLeft"):
        page.keyboard.press("Enter")
        page.wait_for_selector(".episode h2")
        page.keyboard.press("k")
        expect(page.locator(".position")).to_contain_text(f"{everything() - 1} of")
        page.keyboard.press(way) if way == "Escape" else page.go_back()
        expect(last).to_have_attribute("aria-selected", "true")
        expect(page.locator("[role=grid]")).to_be_focused()
        assert stood > 0
        eventually(page, lambda: page.evaluate("document.querySelector('[role=grid]').scrollTop"), stood)


def test_results_come_first_and_their_numbers_name_player_and_n(page):
    page.goto(site(page))
    expect(page).to_have_url(f"{site(page)}/runs")
    expect(page.locator(".sentence")).to_contain_text(
        # chance plays by the ids of episodes, so its points are others after each change of these
        re.compile(r"on KidGym no difference is shown \(-?\d+\.\d points \[-\d+\.\d, \d+\.\d\], p = 1\.000\)")
    )
    expect(page.locator(".scores tbody th[scope=row] a")).to_have_text(
        ["hostile", "chance (random)", "perfect play (oracle)"]
    )
    values = page.locator(".scores .value")
    expect(values.first).to_have_text(re.compile(r"^25\.0\b"))
    expect(values.first).to_have_attribute("title", "hostile, n = 4")
    page.get_by_role("button", name="baseline perfect play (oracle)").click()
    expect(page.locator(".baseline .value").first).to_have_text("the baseline")
    expect(values.first).to_have_text(re.compile(r"^−75\.0 \["))
    page.click("text=show scores")
    expect(values.first).to_contain_text("25.0")
    page.click(".scores th.board:nth-of-type(2) .sorts button:has-text('cost')")
    expect(page.locator("th[aria-sort=descending]")).to_have_count(1)
    for name in ("hostile", "perfect play (oracle)"):
        page.check(f"input[aria-label='compare {name}']")
    expect(page.locator("input[aria-label='compare chance (random)']")).to_be_disabled()
    page.click("#compare")
    expect(page.locator("h1")).to_contain_text("hostile and perfect play (oracle)")
    page.go_back()
    expect(page.locator("#compare")).to_be_focused()
    expect(page.locator("input[type=checkbox]:checked")).to_have_count(2)
    page.locator(".facts-of-a-cell a").first.click()
    expect(page.locator(".row").first).to_be_visible()
    expect(page).to_have_url(re.compile(r"[?&]cut_off=1(&|$)"))


def test_a_comparison_leads_to_its_games_and_back_to_where_it_stood(page):
    open_comparison(page)
    expect(page.locator(".forest >> nth=0 >> tbody tr").nth(2)).to_be_visible()
    for link in page.locator(".two-by-two a").all()[:8]:
        count = int(link.inner_text())
        where = link.get_attribute("href")
        other = page.context.new_page()
        other.goto(site(page) + where)
        expect_count(other, count)
        other.close()
    flips = page.locator(".flip > a")
    for number in range(flips.count()):
        page.keyboard.press("j")
        expect(flips.nth(number)).to_be_focused()
    page.keyboard.press("k")
    flip = flips.nth(flips.count() - 2)
    expect(flip).to_be_focused()
    expect(page.locator(".flip").nth(flips.count() - 2).locator(".reply").nth(1)).to_be_visible()
    stood = page.evaluate("scrollY")
    for way in ("Escape", "back"):
        page.keyboard.press("Enter")
        page.wait_for_selector(".panes.two .episode >> nth=1")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Escape") if way == "Escape" else page.go_back()
        expect(flip).to_be_focused()
        assert stood > 0
        eventually(page, lambda: page.evaluate("scrollY"), stood)


@pytest.mark.parametrize(
    ("old", "new"),
    [("", "/runs"), ("?suite=kumo&won=1", "/suite/kumo?won=1"), ("?sort=-steps", "/episodes?sort=-steps")],
)
def test_old_addresses_lead_to_the_pages_of_today(page, old, new):
    page.goto(f"{site(page)}/{old}")
    expect(page).to_have_url(site(page) + new)


def test_every_page_prints_without_its_controls(page):
    page.emulate_media(media="print")
    for path, content in (("/runs", ".scores"), ("/episodes", ".row .outcome"), (f"/compare?{VERSUS}", ".flip")):
        page.goto(site(page) + path)
        page.wait_for_selector(content)
        hidden = ".filters, .tabs, .pages, .theme, .sorts, input[type=checkbox]"
        assert not any(each.is_visible() for each in page.locator(hidden).all())
    page.goto(f"{site(page)}/episodes")
    page.wait_for_selector(".row .outcome")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(page.locator(".row")).to_have_count(min(100, everything()))
    expect(page.locator(".printed")).to_contain_text(f"printed here: {min(100, everything())}")


def test_two_decisions_are_in_sight_and_the_page_uses_a_wide_window(page):
    filtered(page, suite="kidgym", player="random", versus="oracle", versus_run="calm", flipped="1")
    open_first(page)
    page.wait_for_selector(".panes.two .episode >> nth=1")
    decided = page.locator(".decision div:first-child dd")
    expect(decided).to_have_count(2)
    left, right = decided.all_inner_texts()
    assert left != right, "opens at the first step that differs"
    assert all(box.bounding_box()["y"] < 600 for box in decided.all())
    page.set_viewport_size({"width": 2560, "height": 1400})
    eventually(page, lambda: page.locator(".panes").bounding_box()["width"] > 2400, True)


def test_an_error_is_shown_where_it_occurs(viewer_address, chromium):
    context = chromium.new_context()
    page = context.new_page()
    for path in ("cells", "values"):
        page.route(f"**/api/{path}*", lambda route: route.fulfill(status=500, body='{"error": "the disk is gone"}'))
    page.goto(viewer_address)
    page.click(".pages a:has-text('episodes')")
    expect(page.locator(".panel [role=alert]")).to_have_text("the disk is gone")
    expect(page.locator(".results > [role=alert]")).to_contain_text("choose from: the disk is gone")
    expect(page.locator(".row .outcome").first).to_be_visible()
    context.close()


def test_a_key_that_follows_at_once_acts_on_the_episode_that_is_shown(page):
    open_first(page)
    page.keyboard.press("j")
    expect(page.locator(".position")).to_have_text(f"2 of {everything()}")
    page.evaluate(
        "new MutationObserver((_, observer) => { if (document.querySelector('.position')?.textContent.startsWith('3 ')) {"
        "observer.disconnect(); window.third = true; dispatchEvent(new KeyboardEvent('keydown', {key: 'k'})); } })"
        ".observe(document.body, {subtree: true, childList: true, characterData: true})"
    )
    page.keyboard.press("j")
    until(page, "window.third === true")
    expect(page.locator(".position")).to_have_text(f"2 of {everything()}")


def test_notes_are_written_found_and_removed_by_keyboard(page):
    open_first(page)
    heading = page.inner_text("h1")
    page.keyboard.press("n")
    expect(page.locator(".notes input").first).to_be_focused()
    page.keyboard.type("misread <b>label</b>")
    page.keyboard.press("Tab")
    page.keyboard.type("n is no key here")
    page.keyboard.press("Enter")
    note = page.locator(".notes li")
    expect(note).to_contain_text("misread <b>label</b> n is no key here ada")
    assert note.locator(".tag b").count() == 0, "markup stays text"
    page.keyboard.press("Escape")
    page.locator(".filters label:has-text('tag') select").select_option("misread <b>label</b>")
    expect(page.locator(".count")).to_contain_text("1 episodes")
    expect(page.locator(".row")).to_contain_text("misread <b>label</b>")
    open_first(page)
    assert page.inner_text("h1") == heading
    page.locator(".notes li button").focus()
    page.keyboard.press("Enter")
    expect(note).to_have_count(0)
    page.keyboard.press("n")
    expect(page.locator(".notes input").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".notes [role=alert]")).to_contain_text("a tag, a text, or both")
    page.keyboard.press("Escape")
    expect(page.locator(".notes form")).to_have_count(0)
    assert page.inner_text("h1") == heading, "Escape leaves the form, not the episode"


def test_what_a_model_wrote_stays_inert(page):
    filtered(page, run="wild", suite="kumo")
    open_first(page)
    reply = page.locator(".reply")
    assert reply.locator("script, img, b, a").count() == 0
    shown = reply.inner_text()
    assert "<script>window.hacked = true</script>" in shown
    for character in ("001B", "202E", "2066", "0000"):
        assert f"U+{character}" in shown
    assert not set("\x1b\u202e\u2066\x00") & set(page.inner_text("body"))
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("text=cut off")
    assert len(page.inner_text(".reply")) < 30_000
    page.click(".reply .more")
    until(page, "count => document.querySelector('.reply').textContent.length > count", len(MEGABYTE.strip()) - 100)
    filtered(page, run="wild", panel="failures")
    page.wait_for_selector(".causes td.message")
    assert page.evaluate("window.hacked") is None and HOSTILE[:30] in page.inner_text(".causes td.message")


# colors follow the scheme and the layout follows the width: each of both once is enough
@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (900, "dark"), (1400, "light")])
def test_axe_finds_no_violation_and_nothing_is_wider_than_the_window(page, frontend, scheme, width):
    axe = (frontend / "node_modules" / "axe-core" / "axe.min.js").read_text()
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)

    def check(what):
        page.evaluate(axe)
        found = page.evaluate(
            "axe.run().then(result => result.violations.map(it => [it.id, it.nodes.map(n => n.html.slice(0, 200))]))"
        )
        assert not found, f"{what}: {found}"
        assert page.evaluate("document.documentElement.scrollWidth") <= width, what

    check("list")
    page.goto(f"{site(page)}/runs")
    page.wait_for_selector(".scores .dot")
    check("results")
    open_comparison(page)
    check("comparison")
    filtered(page)
    page.click("text=causes of failure")
    page.wait_for_selector(".causes td")
    check("causes")
    for suite, player in (("kumo", "random"), ("kidgym", "random"), ("multistar", "hostile"), ("kumo", "hostile")):
        filtered(page, suite=suite, player=player)
        open_first(page)
        check(suite)
        if suite == "kidgym":
            page.select_option(".beside select", index=1)
            page.wait_for_selector(".panes.once")
            check("two episodes")
    page.select_option(".beside select", index=1)
    page.wait_for_selector(".panes.two .episode >> nth=1")
    check("two side by side")


def test_a_narrow_list_shows_first_what_tells_episodes_apart(page):
    assert page.locator("[role=columnheader]").all_inner_texts()[:4] == ["outcome", "run", "suite", "task"]
    page.set_viewport_size({"width": 400, "height": 900})
    eventually(
        page,
        lambda: page.locator("[role=columnheader]").all_inner_texts()[:4],
        ["outcome", "task", "level", "mode"],
    )


@pytest.mark.parametrize("late", ["state", "values", "cells", "episodes"])
def test_nothing_jumps_while_the_page_loads(page, late):
    def slow(route):
        time.sleep(0.5)
        route.continue_()

    page.route(f"**/api/{late}*", slow)
    page.add_init_script(
        "window.shift = 0; new PerformanceObserver(list => { for (const it of list.getEntries()) "
        "if (!it.hadRecentInput) window.shift += it.value }).observe({type: 'layout-shift', buffered: true})"
    )
    filtered(page, suite="kidgym")
    page.wait_for_timeout(1000)
    assert page.evaluate("window.shift") < 0.01
    open_first(page)
    page.reload()
    page.wait_for_selector(".episode h2")
    page.wait_for_timeout(500)
    assert page.evaluate("window.shift") < 0.01


def test_a_run_that_goes_on_grows_on_the_page(page, tmp_path):
    plan, rows = calm_rows()
    path = write_run(tmp_path / "live", plan, rows.slice(0, 4))
    viewer = Viewer(EpisodeIndex([viewed(path)]))
    with serving(viewer) as address:
        viewer.watch()
        page.goto(address)
        expect(page.locator(".runs")).to_contain_text(f"4 of {len(plan)} episodes")
        page.click(".pages a:has-text('episodes')")
        expect_count(page, 4)
        expect(page.locator(".runs")).to_contain_text(f"4 of {len(plan)} episodes")
        add_part(path, 2, rows.slice(4))
        expect_count(page, len(rows))
        expect(page.locator(".row .outcome").nth(4)).to_be_visible()
        viewer.close()
        page.goto("about:blank")


def test_the_page_never_asks_another_host(page):
    hosts = set()
    page.on("request", lambda request: hosts.add(urlsplit(request.url).hostname))
    filtered(page, suite="kidgym")
    open_first(page)
    page.wait_for_timeout(300)
    assert hosts == {"127.0.0.1"}


def test_live_episodes_are_read_as_they_go_and_finished_runs_are_left_alone(page, tmp_path, monkeypatch, request):
    monkeypatch.setattr(server, "REFRESH_SECONDS", 0.2)
    plan, rows = calm_rows()
    path = write_run(tmp_path / "run", plan, rows.slice(0, 3))
    lock = RunLock(path)
    lock.acquire()
    log, running = GrowingLog(path, lock.mark, {}), plan[5]
    run = ViewedRun("run", path, small_suite, lambda: Run(path).data, writer=lambda: "at work")
    index = EpisodeIndex([run])
    viewer = Viewer(index)
    viewer.watch()
    request.addfinalizer(viewer.close)
    request.addfinalizer(lock.release)

    def says(number, text):
        return PlayedLine(running.id, number, 5.0, "the prompt", (), text, "", "up", "tag", "stop", 7, 3, 0.5, 0.0)

    log.append([Began.of(running, time.time()), says(0, f"first {HOSTILE}")])
    asked = []
    page.on("request", lambda sent: asked.append(sent.url.partition("/api/")[2]))
    with serving(viewer, ViewerNotes(index, "ada").routes()) as address:
        page.goto(address)
        page.click("nav >> text=live")
        expect(page.locator(".turn-live")).to_contain_text("first <script>")
        log.append([says(1, "then this")])
        expect(page.locator(".turn-live >> nth=0")).to_contain_text("then this")
        turns = [each for each in asked if each.startswith("live/turns")]
        assert [parse_qs(urlsplit(each).query)["from"] for each in turns] == [["0"], ["1"]], (
            "only what is new is asked for"
        )
        part = path / "episodes" / "part-000002-test.parquet"
        part.write_bytes(write_part([rows.slice(3)], rows.schema, lease=lock.mark))
        expect(page.locator(".said-live .notice")).to_contain_text("Open it in the ledger")
        assert page.evaluate("window.hacked") is None
        page.wait_for_timeout(1_000)
        asked.clear()
        page.wait_for_timeout(2_500)
        assert asked == [], "of finished runs nothing new will come"
        page.click("text=Open it in the ledger")
        page.wait_for_selector(".episode h2")
        page.goto("about:blank")  # the page would complain of what it asks of a server that has ended
