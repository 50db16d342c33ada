"""Every view of the dashboard in every theme, by the rules of axe-core."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browser.axe import axe_script, violations
from endmark.control.description import describe
from endmark.control.ops_database import forecasts
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION
from endmark_ops.app import SHARED_SECONDS
from support.broken_records import write_letters
from support.ops_job import PIPELINE, Job, costs_of, forecast_of, join_forecast_of
from support.ops_sidecar import Sidecar
from support.ops_tokens import WRITER

pytestmark = pytest.mark.timeout(600)

VIEWS = ("live", "charts", "graph", "ledger", "states", "why", "lookup", "join", "letters", "knobs", "totals")


@pytest.fixture
def reach(tmp_path: Path) -> dict[str, str]:
    return {"tokens": f"ann:write:{WRITER}", "warehouse": str(tmp_path)}


@pytest.fixture
def full_job(running_job: Job, tmp_path: Path) -> Job:
    """A job with something in each view."""
    database = running_job.database
    pipeline = load(AUCTION, {"ENDMARK_RELATION_URL": "sqlite://"})
    database.pipelines.describe(PIPELINE, describe(pipeline).model_dump())
    forecasts.store(database, PIPELINE, forecast_of("sellers"))
    forecasts.store(database, PIPELINE, join_forecast_of(20_000.0))
    write_letters(tmp_path / "dead_letters", [("bids", 0, 1, "not_json", "Expecting value", b"{")])
    running_job.commit(told=costs_of("sellers", 1000.0), now=time.time())
    return running_job


def test_views_of_a_pipeline(full_job: Job, page: Page, tmp_path: Path) -> None:
    script = axe_script(tmp_path)
    expect(page.locator("#batch")).to_have_text("#120")
    base = page.url
    found = []
    for view in VIEWS:
        page.goto(f"{base}#{view}")
        expect(page.locator(f"#view-{view}").locator(":is(h2, h3, figure):visible").first).to_be_visible()
        found += [(view, *each) for each in violations(page, script)]
    assert found == []


def test_list_of_pipelines(full_job: Job, sidecar: Sidecar, page: Page, tmp_path: Path) -> None:
    script = axe_script(tmp_path)
    full_job.database.runs.start("run-2", "fulfilment", "app", "/checkpoint")
    page.wait_for_timeout(1000 * SHARED_SECONDS)  # an answer that is shared may be of before
    page.goto(sidecar.url)
    expect(page.get_by_role("row")).to_have_count(3)
    assert violations(page, script) == []
