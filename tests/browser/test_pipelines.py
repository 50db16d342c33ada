"""The list of all pipelines in a real browser, and the way from it to the views of one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from support.ops_job import Job
from support.ops_sidecar import Sidecar

pytestmark = pytest.mark.timeout(400)

WIDTH_OVER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture
def url(running_job: Job, sidecar: Sidecar) -> str:
    """The list, of two pipelines: one runs, the other has failed before its first batch."""
    database = running_job.database
    database.runs.start("run-2", "fulfilment", "app", "/checkpoint")
    database.runs.set_state("run-2", "failed", "no more")
    return sidecar.url


def test_list_shows_each_pipeline_and_leads_to_it(page: Page, pictures: Path) -> None:
    rows = page.get_by_role("region", name="Pipelines").get_by_role("row")
    expect(rows).to_have_count(3)
    heads = ["Pipeline", "State", "Alerts", "Lag", "Throughput", "Oldest progress", "Last batch"]
    expect(page.get_by_role("columnheader")).to_have_text(heads)
    expect(rows.nth(1)).to_contain_text(re.compile(r"unknown\s*[\d.]+k.records/s\s*items: none yet"))
    expect(rows.nth(1)).to_contain_text(
        re.compile(r"auction\s*running.*partition 2 of items has never had a row", re.DOTALL)
    )
    expect(rows.nth(2)).to_contain_text(re.compile(r"fulfilment\s*failed.*the job has failed"))
    for scheme, width in (("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        assert page.evaluate(WIDTH_OVER) <= 0, width
        page.screenshot(path=pictures / f"pipelines-{scheme}-{width}.png")
    expect(page.get_by_role("columnheader", name="Alerts")).to_be_in_viewport()
    page.get_by_role("link", name="auction").click()
    expect(page.locator("#batch")).to_have_text("#119")
    assert page.url.endswith("/pipelines/auction/")
    page.get_by_role("link", name="All pipelines").click()
    page.get_by_role("link", name="fulfilment").click()
    expect(page.locator("#state")).to_have_text("failed")


def test_list_opens_an_only_pipeline(page: Page, running_job: Job) -> None:
    """Its views then have no way back to a list of one."""
    with running_job.database.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM pipelines WHERE pipeline = 'fulfilment'")
    page.wait_for_url("**/pipelines/auction/")
    expect(page.locator("#batch")).to_have_text("#119")
    expect(page.get_by_role("link", name="All pipelines")).to_be_hidden()
