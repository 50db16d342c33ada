"""The dashboard in a real browser, served by a real sidecar over a real ops database."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from endmark.control.ops_database.signs_of_life import SignsOfLife
from support.ops_job import PIPELINE, Job, job_in
from support.ops_sidecar import Sidecar

MOST_MS = 90_000  # a busy machine has taken more than 5 s for one answer of the sidecar

expect.set_options(timeout=MOST_MS)

CHROMIUM = "/usr/bin/chromium"
SWITCHES = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WATCH_POLICY = """
window.refused = [];
document.addEventListener("securitypolicyviolation", event => window.refused.push(event.violatedDirective));
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES, timeout=2 * MOST_MS)
        yield browser
        browser.close()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    """A job that gives signs of life, so that a slow test does not make the sidecar take it for lost."""
    with job_in(tmp_path) as job, SignsOfLife(job.database, job.run_id, print):
        yield job


@pytest.fixture
def running_job(job: Job) -> Job:
    job.start()
    now = time.time()
    for n in range(120):
        job.commit(age=120.0 - n, now=now)
    return job


@pytest.fixture
def reach() -> dict[str, str]:
    """Return further options of the sidecar's command by name; tests override this fixture."""
    return {}


@pytest.fixture
def sidecar(job: Job, reach: dict[str, str]) -> Iterator[Sidecar]:
    sidecar = Sidecar(str(job.database.engine.url), reach=reach)
    sidecar.start()
    yield sidecar
    sidecar.stop()


@pytest.fixture
def url(sidecar: Sidecar) -> str:
    """The dashboard of the job's pipeline."""
    return f"{sidecar.url}pipelines/{PIPELINE}/"


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[Page]:
    """The dashboard, opened; fails a test that left an error in the console or met the content policy."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(MOST_MS)
    context.add_init_script(WATCH_POLICY)
    page = context.new_page()
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(url)
    yield page
    refused = page.evaluate("window.refused")
    context.close()
    # A sidecar that is down, and what it refuses, show as failed requests, which some tests provoke.
    statuses = 400, 401, 403, 422, 503
    provoked = ("ERR_CONNECTION_REFUSED", *(f"status of {status}" for status in statuses))
    assert [text for text in errors if not any(each in text for each in provoked)] == []
    assert refused == []


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Where screenshots go."""
    directory = Path(os.environ.get("ENDMARK_SCREENSHOT_DIR", tmp_path))
    directory.mkdir(parents=True, exist_ok=True)
    return directory
