"""The pictures of the dashboard in README and docs: `make picture`.

One shows a lookup of the demo while rows wait, the other the graph of a pipeline of many steps.
"""

from __future__ import annotations

import re
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, ViewportSize, expect, sync_playwright

from browser.conftest import CHROMIUM, MOST_MS, SWITCHES
from endmark.control.description import describe
from support.demo import DEADLINE_SECONDS, running_demo
from support.fulfilment import FULFILMENT, samples_of_a_batch
from support.ops_job import PIPELINE, job_in
from support.ops_sidecar import Sidecar

PICTURES = Path(__file__).parents[2] / "docs/pictures"
_SIZE: ViewportSize = {"width": 1100, "height": 900}
_WIDE: ViewportSize = {"width": 1300, "height": 900}
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


def take_graph(page: Page, directory: Path) -> None:
    """Keep the graph of the pipeline of many steps, with the figures of a job that is a stand-in."""
    with job_in(directory) as job:
        job.database.describe(PIPELINE, describe(FULFILMENT).model_dump())
        job.start()
        now = time.time()
        for n in range(20):
            job.commit(age=20.0 - n, told=samples_of_a_batch(n), now=now)
        sidecar = Sidecar(str(job.database.engine.url))
        sidecar.start()
        page.goto(f"{sidecar.url}pipelines/{PIPELINE}/#graph")
        graph = page.locator("#graph-picture").get_by_role("img")
        expect(graph).to_have_attribute("aria-label", re.compile("in state"))
        page.locator("#graph-picture").screenshot(path=PICTURES / "graph.png")
        sidecar.stop()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="endmark-picture-") as directory, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES, timeout=2 * MOST_MS)
        with running_demo(Path(directory)) as demo:
            take_lookup(browser.new_page(viewport=_SIZE), demo.dashboard())
        take_graph(browser.new_page(viewport=_WIDE), Path(directory))
        browser.close()
    for picture in sorted(PICTURES.glob("*.png")):
        print(f"{picture}: {picture.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
