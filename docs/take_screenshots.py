"""Takes the pictures of the viewer in docs/images: each main view, light and dark, narrow and wide.

raycade view --no-token
python -m docs.take_screenshots http://127.0.0.1:PORT/ simulated
"""

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).parent / "images"
WIDTHS = {1400: 900, 400: 860}
COLORS = 256


def shown(page: Page, view: str, address: str, player: str) -> None:
    """Bring a view onto the page."""
    chosen = {
        "results": "runs",
        "list": "episodes",
        "kumo": f"?suite=kumo&level=easy&player={player}&sort=-steps",
        "kidgym": f"?suite=kidgym&task=MA&player={player}&sort=-steps",
        "multistar": f"?suite=multistar&task=center_single&mode=vanilla/model&player={player}",
        "side_by_side": f"?suite=kidgym&task=CL&player={player}&sort=-steps",
    }
    page.goto(address + chosen[view])
    page.wait_for_selector(".scores .dot" if view == "results" else ".row .outcome")
    if view not in ("results", "list"):
        page.click(".row >> nth=0")
        page.wait_for_selector(".episode h2")
        page.keyboard.press("ArrowRight" if view != "multistar" else "Home")
    if view == "multistar":
        page.click(".graph .node >> nth=5")
    if view == "side_by_side":
        options = page.locator(".beside option")
        page.select_option(".beside select", label=next(text for text in options.all_inner_texts() if "oracle" in text))
        page.wait_for_selector(".episode >> nth=1")
    page.wait_for_load_state("networkidle")
    page.evaluate("document.activeElement.blur()")


def main(address: str, player: str) -> None:
    """Take all pictures of the viewer at this address, with the games of this player."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            for width, height in WIDTHS.items():
                page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
                for view in ("results", "list", "kumo", "kidgym", "multistar", "side_by_side"):
                    shown(page, view, address, player)
                    picture = Image.open(io.BytesIO(page.screenshot()))
                    path = IMAGES / f"viewer_{view}_{scheme}_{width}.png"
                    picture.convert("RGB").quantize(COLORS, dither=Image.Dither.NONE).save(path, optimize=True)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
