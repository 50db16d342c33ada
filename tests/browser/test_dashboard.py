"""The dashboard in a real browser, served by a real sidecar over a real ops database."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from endmark.control.description import Description, describe
from endmark.control.ops_database.tables import batches
from support.fulfilment import FULFILMENT
from support.ops_job import API, PIPELINE, Job
from support.ops_sidecar import Sidecar

# A sidecar or browser that does not start must not hold up the whole suite.
pytestmark = pytest.mark.timeout(400)

# Pixels of a chart with a colour of their own, which axes and grid do not have.
COLOURED_PIXELS = """canvas => {
    const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let count = 0;
    for (let i = 0; i < data.length; i += 4) {
        const channels = [data[i], data[i + 1], data[i + 2]];
        if (data[i + 3] > 128 && Math.max(...channels) - Math.min(...channels) > 60) count += 1;
    }
    return count;
}"""
# The shares of columns with such a pixel, in the first, the middle and the last quarter of a chart's plot.
COLOURED_COLUMNS = """canvas => {
    const {width, height} = canvas;
    const {data} = canvas.getContext("2d").getImageData(0, 0, width, height);
    const left = 60 * devicePixelRatio;
    const share = (from, to) => {
        const plot = width - left - 14 * devicePixelRatio;
        const [first, last] = [from, to].map(part => Math.round(left + part * plot));
        let count = 0;
        for (let x = first; x < last; x += 1) {
            for (let y = 0; y < height; y += 1) {
                const [r, g, b, a] = data.slice(4 * (y * width + x), 4 * (y * width + x) + 4);
                if (a > 128 && Math.max(r, g, b) - Math.min(r, g, b) > 60) { count += 1; break; }
            }
        }
        return count / (last - first);
    };
    return [share(0.05, 0.25), share(0.4, 0.6), share(0.75, 0.95)];
}"""
WIDTH_OVER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def tile(page: Page, name: str) -> str:
    """The figure of a tile with its unit, such as `26.1k rows`."""
    shown = page.locator(".tile").filter(has=page.get_by_text(name, exact=True)).locator(".figure")
    return shown.inner_text().replace("\xa0", " ")


def coloured_pixels(page: Page) -> list[int]:
    return [int(canvas.evaluate(COLOURED_PIXELS)) for canvas in page.locator(".canvas canvas:visible").all()]


def test_every_chart_is_drawn(running_job: Job, page: Page) -> None:
    """All charts have lines in colour, a name for screen readers and a legend with values."""
    for view, charts in (("#live", 5), ("#charts", 6)):
        page.goto(f"{page.url.partition('#')[0]}{view}")
        expect(page.get_by_role("figure")).to_have_count(charts)
        expect(page.get_by_role("img", name=re.compile("over time"))).to_have_count(charts)
        pixels = coloured_pixels(page)
        assert len(pixels) == charts
        assert min(pixels) > 200, pixels
        for legend in page.locator(".legend:visible").all():
            assert re.search(r"\d", legend.inner_text())


def test_live_view_fits_one_screen(running_job: Job, page: Page, pictures: Path) -> None:
    """All its charts end on a small laptop's screen, with as many reasons as the demo has."""
    page.set_viewport_size({"width": 1280, "height": 800})
    reasons = ("empty", "missing_field", "unknown_field", "not_utf8")
    running_job.commit(told={f"dead_letters_total{{reason={reason}}}": 16.0 for reason in reasons})
    expect(page.locator("#batch")).to_have_text("#120")
    expect(page.locator(".legend li", has_text="violation")).to_have_count(2)
    bottoms = [
        each.evaluate("node => node.getBoundingClientRect().bottom")
        for each in page.get_by_role("figure").all()
    ]
    page.screenshot(path=pictures / "live.png")
    assert len(bottoms) == 5
    assert max(bottoms) <= 800


def test_times_without_batches_are_gaps(running_job: Job, page: Page) -> None:
    """No line crosses a minute in which no batch came; on both sides of it there is one."""
    with running_job.database.engine.begin() as connection:
        early = batches.c.batch_id < 60
        connection.execute(batches.update().where(early).values(committed_at=batches.c.committed_at - 60))
    page.reload()
    expect(page.locator("#batch")).to_have_text("#119")
    canvas = page.locator(".canvas canvas").first
    shares = canvas.evaluate(COLOURED_COLUMNS)
    # 60 batches, 61 s without one, and 60 batches: the middle third of the chart is empty.
    left, middle, right = shares
    assert (left > 0.8, middle, right > 0.8) == (True, 0, True), shares


def test_figures_are_those_of_the_database(running_job: Job, page: Page) -> None:
    """Key figures, legends and the table of totals agree with the totals in the database."""
    expect(page.locator("#batch")).to_have_text("#119")
    batch = running_job.database.batches.latest(PIPELINE)
    assert batch is not None
    letters = sum(value for key, value in batch.totals.items() if key.startswith("dead_letters"))
    assert tile(page, "Dead letters") == f"{letters:.0f} records"
    assert tile(page, "Groups closed") == "1.32k groups"
    bids = batch.totals["rows_total{stream=bids}"]
    page.goto(f"{page.url.partition('#')[0]}#totals")
    row = page.get_by_role("row").filter(has_text="rows_total").filter(has_text="stream=bids").first
    expect(row).to_contain_text(f"{bids:,.0f}")
    expect(row).to_contain_text("Well-formed data rows.")
    page.get_by_label("Search").fill("well-formed")
    expect(page.locator("#totals code").first).to_have_text("rows_total")
    expect(page.locator("#totals th")).to_have_count(2)
    page.get_by_label("Search").fill("stream=BIDS")
    expect(page.locator("#totals .series").filter(has_text="stream=items")).to_have_count(0)
    expect(row).to_contain_text(f"{bids:,.0f}")
    page.goto(f"{page.url.partition('#')[0]}#live")
    rate = batch.samples["records_total{stream=bids}"]
    legend = page.locator("figure").filter(has_text="Throughput").locator(".legend")
    shown = re.search(r"bids\s+([\d.]+)k.records/s", legend.inner_text())
    assert shown is not None
    assert float(shown[1]) * 1000 == pytest.approx(rate, rel=0.02)


def test_figures_follow_new_batches(running_job: Job, page: Page) -> None:
    """Batches that are committed while the view is open reach header, tiles, charts and table."""
    expect(page.locator("#batch")).to_have_text("#119")
    before = page.locator(".canvas canvas").first.evaluate("canvas => canvas.toDataURL()")
    for n in range(120, 123):
        samples = running_job.commit()
        expect(page.locator("#batch")).to_have_text(f"#{n}")
        live = sum(value for key, value in samples.items() if key.startswith("state_rows"))
        assert tile(page, "Live state").startswith(f"{live / 1000:.1f}k")
    expect(page.locator("#window")).to_contain_text("123 batches")
    assert page.locator(".canvas canvas").first.evaluate("canvas => canvas.toDataURL()") != before
    expect(page.locator("#totals tr").filter(has_text="groups_closed_total")).to_contain_text("1,353")


def test_view_says_what_time_waits_for(running_job: Job, page: Page) -> None:
    """One sentence a stream, kept current."""
    lines = page.get_by_role("list", name="Progress of event time").get_by_role("listitem")
    expect(lines).to_contain_text(
        ["bids: progress is held back by partition 1", "items: progress is held back by partition 2"]
    )


def test_legend_shows_the_batch_under_the_cursor(running_job: Job, page: Page) -> None:
    """Pointing at a chart puts the values of that moment into the legends of all charts of the view."""
    expect(page.locator("#batch")).to_have_text("#119")
    shown = page.locator(".moment").filter(visible=True)
    expect(shown.first).to_have_text("last batch")
    page.locator(".canvas").first.hover(position={"x": 200, "y": 40})
    expect(shown.last).to_have_text(re.compile(r"\d\d:\d\d:\d\d · batch #\d+"))
    page.mouse.move(5, 5)
    expect(shown.last).to_have_text("last batch")
    assert shown.count() > 1


@pytest.fixture
def waiting_job(job: Job) -> Job:
    """A job that has been described and has not started."""
    job.database.pipelines.describe(PIPELINE, describe(FULFILMENT).model_dump())
    return job


def test_batches_of_several_days_have_their_dates(waiting_job: Job, page: Page) -> None:
    """Each mark of the time axis was 00:00, and a batch under the pointer had the time of day alone."""
    waiting_job.start()
    now = time.time()
    for hours in range(96, 0, -1):
        waiting_job.commit(age=hours * 3600.0, now=now)
    page.reload()
    expect(page.locator("#batch")).to_have_text("#95")
    shown = page.locator(".moment").filter(visible=True).first
    page.locator(".canvas").first.hover(position={"x": 200, "y": 40})
    expect(shown).to_have_text(re.compile(r"\d+ \w{3} \d{4}, [\d:]{8} . batch #\d+"))
    marks = page.evaluate(
        """async () => {
            const { timeMark } = await import("../../static/format.js");
            const at = (...time) => new Date(2026, 10, ...time).getTime() / 1000;
            return [[at(28), 86400], [at(28, 6), 21600], [at(28), 3600], [at(28, 0, 0, 5), 5]].map(
                ([unix, step]) => timeMark(unix, step));
        }"""
    )
    assert marks == ["28 Nov", "06:00", "28 Nov", "00:00:05"]


def test_view_waits_for_the_first_batch(waiting_job: Job, page: Page, pictures: Path) -> None:
    """Before a run, and before a run's first batch, the view says what it waits for; then it fills."""
    expect(page.locator("#state")).to_have_text("waiting")
    expect(page.get_by_role("heading", name="No batch yet")).to_be_visible()
    page.screenshot(path=pictures / "empty.png")
    waiting_job.start()
    expect(page.locator("#state")).to_have_text("running")
    waiting_job.commit()
    expect(page.get_by_role("figure").first).to_be_visible()
    expect(page.get_by_role("heading", name="No batch yet")).to_be_hidden()


def test_hostile_error_text_stays_text(running_job: Job, page: Page, pictures: Path) -> None:
    """The error of a failed run is shown letter by letter and never runs."""
    error = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    running_job.database.runs.set_state(running_job.run_id, "failed", error)
    expect(page.locator("#state")).to_have_text("failed")
    expect(page.locator("#problem-text")).to_have_text(error)
    assert page.locator("#problem img, #problem script").count() == 0
    assert page.title() == "auction: failed · endmark"
    page.screenshot(path=pictures / "failed.png")


def test_quiet_run_is_stale(waiting_job: Job, page: Page) -> None:
    """A run that says it is running but commits nothing is called stale."""
    waiting_job.start()
    waiting_job.commit(age=3000)
    expect(page.locator("#state")).to_have_text("running")
    with waiting_job.database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE runs SET started_at = started_at - 5000")
    expect(page.locator("#state")).to_have_text("stale")
    expect(page.locator("#problem-title")).to_have_text("No batch for more than 1 min")


def test_replay_replaces_a_batch(running_job: Job, page: Page) -> None:
    """A batch that a restarted job commits again replaces the one on screen."""
    expect(page.locator("#batch")).to_have_text("#119")
    running_job.batch_id = 99
    with running_job.database.engine.begin() as connection:
        connection.execute(batches.delete().where(batches.c.batch_id > 99))
    running_job.commit()
    expect(page.locator("#batch")).to_have_text("#100")
    expect(page.locator("#window")).to_contain_text("101 batches")


def test_view_outlives_the_sidecar(running_job: Job, page: Page, sidecar: Sidecar) -> None:
    """While the sidecar is gone the view says so and keeps its figures; then it goes on by itself."""
    expect(page.locator("#batch")).to_have_text("#119")
    sidecar.stop()
    expect(page.locator("#state")).to_have_text("no contact")
    expect(page.get_by_role("alert")).to_contain_text("The sidecar does not answer")
    expect(page.get_by_role("figure").first).to_be_visible()
    sidecar.start()
    running_job.commit()
    expect(page.locator("#state")).to_have_text("running")
    expect(page.locator("#batch")).to_have_text("#120")
    expect(page.locator("#problem")).to_be_hidden()


def test_news_come_without_asking(running_job: Job, page: Page, sidecar: Sidecar) -> None:
    """Batches and a change of state are on screen though nothing was asked for since the first ones."""
    nothing: dict[str, Any] = {
        "topics": {},
        "steps": [],
        "tables": [],
        "published": [],
        "whole_topics": [],
        "binary_topics": [],
        "fields": {},
        "lookups": [],
        "join": None,
        "keys": [],
        "windows": {},
        "states": [],
        "gaps": [],
    }
    told = Description(**nothing, control_topic="control")
    running_job.database.pipelines.describe(PIPELINE, told.model_dump())
    # An answer that is shared may be of before, and then the page would ask once more.
    while page.request.get(f"{sidecar.url}{API[1:]}").json()["pipeline"] is None:
        page.wait_for_timeout(50)
    page.reload()
    expect(page.locator("#batch")).to_have_text("#119")
    expect(page.locator("#updates")).to_have_text("as they come")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    running_job.commit()
    expect(page.locator("#batch")).to_have_text("#120")
    expect(page.locator("#window")).to_contain_text("121 batches")
    age = page.locator("#age").inner_text()
    expect(page.locator("#age")).not_to_have_text(age)
    running_job.database.runs.set_state(running_job.run_id, "failed", "no more")
    expect(page.locator("#state")).to_have_text("failed")
    expect(page.get_by_role("alert")).to_contain_text("no more")
    assert asked == []


def test_view_asks_while_there_are_no_events(running_job: Job, page: Page) -> None:
    """It says so; what it asks for is as much, and it listens again as soon as it may."""
    page.route("**/events", lambda route: route.fulfill(status=503, json={"detail": "no place"}))
    page.reload()
    expect(page.locator("#batch")).to_have_text("#119")
    expect(page.locator("#updates")).to_have_text("every second")
    running_job.commit()
    expect(page.locator("#batch")).to_have_text("#120")
    expect(page.locator("#window")).to_contain_text("121 batches")
    page.unroute("**/events")
    expect(page.locator("#updates")).to_have_text("as they come", timeout=180_000)
    running_job.commit()
    expect(page.locator("#batch")).to_have_text("#121")
    expect(page.locator("#window")).to_contain_text("122 batches")


@pytest.mark.parametrize(
    ("name", "width", "height", "scheme"),
    [
        ("light", 1280, 900, "light"),
        ("dark", 1280, 900, "dark"),
        ("phone", 390, 844, "light"),
        ("phone-dark", 390, 844, "dark"),
    ],
)
def test_view_fits_screen_and_theme(
    running_job: Job, page: Page, pictures: Path, name: str, width: int, height: int, scheme: str
) -> None:
    """Charts are drawn in both themes, and nothing is wider than a desktop's or a phone's screen."""
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    expect(page.locator("#batch")).to_have_text("#119")
    assert page.evaluate(WIDTH_OVER) <= 0
    assert min(coloured_pixels(page)) > 200
    page.screenshot(path=pictures / f"{name}.png")
    page.screenshot(path=pictures / f"{name}-full.png", full_page=True)
