"""The pictures of the dashboard: `make picture`.

docs/pictures has those of README and docs: a lookup of the demo while rows wait, and the graph of a pipeline
of many steps. Each view, light, dark and small, is in var/pictures.
"""

from __future__ import annotations

import re
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, ViewportSize, expect, sync_playwright

from browser.conftest import CHROMIUM, MOST_MS, SWITCHES
from endmark.control.description import describe
from support.demo import DEADLINE_SECONDS, Demo, running_demo
from support.fulfilment import FULFILMENT, samples_of_a_batch
from support.ops_job import PIPELINE, job_in
from support.ops_sidecar import Sidecar

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs/pictures"
VIEWS = ROOT / "var/pictures"
_SIZE: ViewportSize = {"width": 1100, "height": 900}
_WIDE: ViewportSize = {"width": 1300, "height": 900}
_SHOWN: dict[str, tuple[str, ViewportSize]] = {
    "light": ("light", {"width": 1280, "height": 800}),
    "dark": ("dark", {"width": 1280, "height": 800}),
    "small": ("light", {"width": 390, "height": 844}),
    "small-dark": ("dark", {"width": 390, "height": 844}),
}
_SOME = re.compile("[1-9]")


def take_lookup(page: Page, url: str) -> None:
    """Keep the view of the lookup after ten batches or more, of which the last leaves rows waiting."""
    page.goto(f"{url}#lookup")
    within = 1000.0 * DEADLINE_SECONDS
    expect(page.locator("#batch")).to_have_text(re.compile(r"#[1-9]\d"), timeout=within)
    expect(page.get_by_role("region", name="Strategy of sellers")).to_contain_text("In force is hybrid")
    expect(page.get_by_role("row", name="Reads by page").get_by_role("cell")).to_have_text(_SOME)
    expect(page.get_by_role("row", name="Rows that wait").get_by_role("cell")).to_have_text(
        _SOME, timeout=within
    )
    page.screenshot(path=PICTURES / "lookup.png")


def take_views(page: Page, demo: Demo) -> None:
    """Keep each view of the demo's pipeline, which is on the page."""
    base = page.url.partition("#")[0]
    ask_why(page, base, demo.token())
    names = [str(link.get_attribute("href")) for link in page.locator("#views a").all() if link.is_visible()]
    for name in names:
        page.goto(base + name)
        shown = page.locator(f"#view-{name.removeprefix('#')}")
        expect(shown.locator(":is(figure, svg, table, h3):visible").first).to_be_visible()
        take_each_theme(page, name.removeprefix("#"))


def ask_why(page: Page, base: str, token: str) -> None:
    """Ask for the newest item of the demo, whose auction has not ended."""
    status = page.request.get(f"{base.replace('/pipelines/', '/api/pipelines/')}status").json()
    rows = next(total["samples"] for total in status["totals"] if total["name"] == "rows_total")
    newest = next(each["value"] for each in rows if each["labels"] == {"stream": "items"})
    page.goto(f"{base}#why")
    page.get_by_label("item_id, long").fill(f"{newest:.0f}")
    page.keyboard.press("Enter")
    page.get_by_label("Token of the sidecar").fill(token)
    page.get_by_role("button", name="Use it").click()
    expect(page.get_by_role("region", name=": open")).to_be_visible()


def take_each_theme(page: Page, name: str) -> None:
    for shown, (scheme, size) in _SHOWN.items():
        page.set_viewport_size(size)
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page.wait_for_timeout(300)  # charts are drawn anew in another size or theme
        page.screenshot(path=VIEWS / f"{name}-{shown}.png", full_page=True)


def take_graph_and_list(page: Page, directory: Path) -> None:
    """Keep the graph of the pipeline of many steps, and the list of this pipeline and another one.

    The figures are those of a job that is a stand-in.
    """
    with job_in(directory) as job:
        job.database.pipelines.describe(PIPELINE, describe(FULFILMENT).model_dump())
        job.start()
        now = time.time()
        for n in range(20):
            job.commit(age=20.0 - n, told=samples_of_a_batch(n), now=now)
        job.database.runs.start("run-2", "orders", "app-2", "/checkpoints/orders")
        sidecar = Sidecar(str(job.database.engine.url))
        sidecar.start()
        page.goto(f"{sidecar.url}pipelines/{PIPELINE}/#graph")
        graph = page.locator("#graph-picture").get_by_role("img")
        expect(graph).to_have_attribute("aria-label", re.compile("in state"))
        page.locator("#graph-picture").screenshot(path=PICTURES / "graph.png")
        page.goto(sidecar.url)
        expect(page.get_by_role("row")).to_have_count(3)
        take_each_theme(page, "list")
        sidecar.stop()


def main() -> None:
    VIEWS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="endmark-picture-") as directory, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES, timeout=2 * MOST_MS)
        with running_demo(Path(directory), "--minutes=5") as demo:
            page = browser.new_page(viewport=_SIZE)
            page.set_default_timeout(MOST_MS)
            take_lookup(page, demo.dashboard())
            take_views(page, demo)
        take_graph_and_list(browser.new_page(viewport=_WIDE), Path(directory))
        browser.close()
    for picture in sorted([*PICTURES.glob("*.png"), *VIEWS.glob("*.png")]):
        print(f"{picture}: {picture.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
