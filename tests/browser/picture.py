"""The README's picture of the dashboard, taken from a demo while rows wait: `make picture`."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from playwright.sync_api import Page, ViewportSize, expect, sync_playwright

from browser.conftest import CHROMIUM, MOST_MS, SWITCHES
from support.demo import DEADLINE_SECONDS, running_demo

PICTURE = Path(__file__).parents[2] / "docs/pictures/lookup.png"
_SIZE: ViewportSize = {"width": 1100, "height": 900}
_SOME = re.compile("[1-9]")


def take(page: Page, url: str) -> None:
    """Keep the view of the lookup after ten batches or more, of which the last leaves rows waiting."""
    page.goto(f"{url}#lookup")
    within = 1000.0 * DEADLINE_SECONDS
    expect(page.locator("#batch")).to_have_text(re.compile(r"#[1-9]\d"), timeout=within)
    expect(page.get_by_role("region", name="Strategy of sellers")).to_contain_text("In force is hybrid")
    expect(page.get_by_role("row", name="Reads by page").get_by_role("cell")).to_have_text(_SOME)
    expect(page.get_by_role("row", name="Rows that wait").get_by_role("cell")).to_have_text(
        _SOME, timeout=within
    )
    PICTURE.parent.mkdir(exist_ok=True)
    page.screenshot(path=PICTURE)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="endmark-picture-") as directory, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES, timeout=2 * MOST_MS)
        with running_demo(Path(directory)) as demo:
            take(browser.new_page(viewport=_SIZE), demo.dashboard())
        browser.close()
    print(f"{PICTURE}: {PICTURE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
