"""The views beside the live one, over a job that is a stand-in; tests/stack has one that is real."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from endmark.control.description import describe
from endmark.control.ops_database import forecasts
from endmark.control.ops_database.tables import replays
from endmark.control.tuning.changes import LINES
from endmark.metrics import Samples, sample
from endmark.pipeline import Pipeline
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION
from endmark_ops.app import SHARED_SECONDS
from support.broken_records import write_letters
from support.fulfilment import FULFILMENT, samples_of_a_batch, wide_description
from support.ops_job import PIPELINE, Job, costs_of, forecast_of, join_forecast_of
from support.ops_tokens import READER, WRITER
from support.unions import document
from support.verify_alone import alone

pytestmark = pytest.mark.timeout(400)

VIEWS = [
    "Live",
    "Charts",
    "Graph",
    "Ledger",
    "State",
    "Why open",
    "Lookup",
    "Join",
    "Dead letters",
    "Knobs",
    "Totals",
]
LONG = "known_to_the_marketing_department_and_its_friends"
HOSTILE = b'<img src=x onerror="document.title=1">'
OF_ORDERS = "orders-0123456789abcdef"
WIDTH_OVER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture
def reach(tmp_path: Path) -> dict[str, str]:
    tokens = f"ann:write:{WRITER},bea:write@orders:{OF_ORDERS}"
    return {"tokens": tokens, "bootstrap": "127.0.0.1:1", "warehouse": str(tmp_path)}


@pytest.fixture
def described_job(running_job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """It has told what it is made of, and has dead letters."""
    monkeypatch.setenv("ENDMARK_RELATION_URL", "sqlite://")
    running_job.database.pipelines.describe(PIPELINE, describe(load(AUCTION)).model_dump())
    letters = [("bids", 0, at, "not_json", "Expecting value", HOSTILE) for at in range(60)]
    write_letters(tmp_path / "dead_letters", [*letters, ("items", 0, 7, "wrong_type", "no number", None)])
    return running_job


def each_theme(page: Page) -> Iterator[str]:
    """Yield the name of each theme and width in turn, while the page is shown so and fits the screen."""
    for scheme, width in (("light", 1280), ("dark", 1280), ("light", 390)):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        assert page.evaluate(WIDTH_OVER) <= 0, width
        yield f"{scheme}-{width}"


def test_views_are_had_by_keyboard_and_address_in_every_theme(
    described_job: Job, page: Page, pictures: Path
) -> None:
    """Each is one landmark, named; nothing is wider than the screen, of a phone either."""
    expect(page.locator("#batch")).to_have_text("#119")
    links = page.get_by_role("navigation", name="Views").get_by_role("link")
    expect(links).to_have_text(VIEWS)
    links.first.focus()
    for number, name in enumerate(VIEWS):
        page.keyboard.press("Enter")
        expect(links.nth(number)).to_have_attribute("aria-current", "page")
        shown = page.locator(".view:visible")
        expect(shown).to_have_count(1)
        expect(shown.locator("h3, svg, table").first).to_be_visible()
        assert shown.get_attribute("aria-label") or shown.get_by_role("heading", level=2).count()
        for theme in each_theme(page):
            page.screenshot(path=pictures / f"view-{name.lower().replace(' ', '-')}-{theme}.png")
        page.set_viewport_size({"width": 1280, "height": 900})
        page.keyboard.press("Tab")
    page.reload()
    expect(links.last).to_have_attribute("aria-current", "page")


def test_graph_ledger_and_lookup_say_what_the_job_has_told(described_job: Job, page: Page) -> None:
    page.goto(f"{page.url.partition('#')[0]}#graph")
    graph = page.locator("#graph-picture").get_by_role("img")
    rates = re.compile(r"items, topic items: .*records/s; .*known, lookup in sellers from bids: 1.23k")
    # A stream is shown as idle when its last batch is old, as it may be on a busy machine.
    commit_until(
        lambda timeout: expect(graph).to_have_attribute("aria-label", rates, timeout=timeout),
        described_job,
        page,
    )
    batch = described_job.database.batches.latest(PIPELINE)
    assert batch is not None
    expect(page.locator("#blocks")).to_contain_text("1,234 rows wait for a lookup")
    expect(page.locator("#blocks")).to_contain_text("items: progress is held back by partition 2")
    page.goto(f"{page.url.partition('#')[0]}#live")
    expect(page.locator(".tile", has_text="Latency, p50")).to_contain_text(re.compile(r"75\d.ms\s*p99 \d"))
    page.goto(f"{page.url.partition('#')[0]}#charts")
    latency = page.get_by_role("figure").filter(has_text="From Kafka\u2019s timestamp")
    expect(latency.get_by_role("listitem").filter(has_text="p99 · bids")).to_contain_text(
        re.compile(r"\d.m?s$")
    )
    page.goto(f"{page.url.partition('#')[0]}#ledger")
    ledger = page.get_by_role("region", name="Promises of items", exact=True).last
    expect(ledger.get_by_role("row")).to_have_count(4)
    first, second, third = ledger.get_by_role("row").all()[1:]
    expect(third).to_contain_text("no row yet, holds progress back")
    closed = 5 * (batch.batch_id + 1)
    expect(first).to_have_text(re.compile(rf"partition 0\s*{closed}\s*\d.*ago\s*0"))
    broken = 2 * (batch.batch_id // 4 + 1)
    expect(second).to_have_text(re.compile(rf"partition 1\s*420\s*\d+.(s|min).*ago\s*{broken}"))
    freed = batch.totals["join_purged_rows_total{stream=bids}"]
    expect(page.locator("#ledger-tables")).to_contain_text(f"freed {freed:,.0f} rows of bids")
    page.goto(f"{page.url.partition('#')[0]}#lookup")
    lookup = page.locator("#lookup-tables")
    expect(lookup.get_by_role("row", name="scan")).to_contain_text("3.50 s")
    expect(lookup.get_by_role("row", name="Rows that wait")).to_contain_text("1.23k rows")
    expect(lookup.get_by_role("row", name="Measured in the last batch")).to_contain_text("210 ms")


# The name of each box of the graph, and its left, top, right and bottom edge in pixels.
BOXES = """graph => [...graph.querySelectorAll(".part")].map(part => {
    const {x, y, width, height} = part.querySelector("rect").getBoundingClientRect();
    return [part.querySelector(".title").textContent, x, y, x + width, y + height];
})"""
# The number of lines of the graph that run through a box, or closely above or below one.
STRAY = """graph => {
    const boxes = [...graph.querySelectorAll("rect")].map(rect => rect.getBoundingClientRect());
    const frame = graph.getBoundingClientRect();
    const isIn = (x, y) => boxes.some(box => box.left + 1 < x && x < box.right - 1
        && box.top - 20 < y && y < box.bottom + 20);
    return [...graph.querySelectorAll(".line")].filter(line => {
        const parts = [...Array(200).keys()].map(i => i / 199 * line.getTotalLength());
        const points = parts.map(part => line.getPointAtLength(part));
        return points.some(({x, y}) => isIn(x + frame.x, y + frame.y));
    }).length;
}"""

# The number of pairs of lines that change sides. Each line goes from left to right.
CROSSINGS = """graph => {
    const lines = [...graph.querySelectorAll(".line")].map(line => {
        const length = line.getTotalLength();
        return [...Array(400).keys()].map(i => line.getPointAtLength(i / 399 * length));
    });
    const heightAt = (line, x) => line.findLast(point => point.x <= x).y;
    const cross = (one, other) => {
        const [from, to] = [Math.max(one[0].x, other[0].x), Math.min(one.at(-1).x, other.at(-1).x)];
        const xs = [...Array(200).keys()].map(i => from + i / 199 * (to - from)).filter(() => from < to);
        const gaps = xs.map(x => heightAt(one, x) - heightAt(other, x));
        return Math.min(...gaps) < -4 && Math.max(...gaps) > 4;
    };
    return lines.flatMap((one, i) => lines.slice(i + 1).filter(other => cross(one, other))).length;
}"""


def drawn(graph: Locator) -> list[Any]:
    """Return the boxes of a graph. They have no size if the graph is drawn anew at this moment."""
    for _ in range(20):
        boxes: list[Any] = graph.evaluate(BOXES)
        if all(right > left for _, left, _, right, _ in boxes):
            return boxes
    raise AssertionError(boxes)


def test_graph_has_each_step_by_name(running_job: Job, page: Page, pictures: Path) -> None:
    """A join of three streams, chained lookups, groups behind it: no line runs through another box."""
    found = FULFILMENT.model_dump(by_alias=True)
    found["publish"]["by_country"] = {"topic": "countries", "mode": "changes"}
    running_job.database.pipelines.describe(PIPELINE, describe(Pipeline.model_validate(found)).model_dump())
    page.goto(f"{page.url.partition('#')[0]}#graph")
    page.reload()
    graph = page.locator("#graph-picture").get_by_role("img")
    shown = re.compile(
        "^orders, topic orders: .*fulfilled, join from located, payments, shipments: .*in state"
    )
    expect(graph).to_have_attribute("aria-label", shown)
    commit_until(
        lambda timeout: expect(graph).to_have_attribute(
            "aria-label", re.compile(r"priced, row step from orders: filters \d"), timeout=timeout
        ),
        running_job,
        page,
        samples_of_a_batch(1),
    )
    said = graph.get_attribute("aria-label") or ""
    for part in (
        r"priced, row step from orders: filters [\d.]+.rows/s",
        "known, lookup in customers from priced: 0.rows wait",
        "located, lookup in countries from known: 321.rows wait",
        r"fulfilled, join from located, payments, shipments: 32\.[\d]+k.rows in state",
        r"by_country, aggregate from fulfilled: [\d.]+.groups/s",
        r"fulfilled, topic from fulfilled: [\d.k]+.rows/s",
        r"fulfilled, table from fulfilled: [\d.k]+.rows/s",
        "by_country, table from by_country: 60.rows",
        "countries, topic from by_country: 60.rows",
    ):
        assert re.search(f"(^|; ){part}(;|$)", said), (part, said)
    boxes = drawn(graph)
    names = ["orders", "priced", "known", "located", "fulfilled", "by_country"]
    left = {name: x for name, x, *_ in reversed(boxes)}
    assert sorted(names, key=left.__getitem__) == names
    for one, (_, x, y, right, bottom) in enumerate(boxes):
        for _, other_x, other_y, *_ in boxes[one + 1 :]:
            assert not (x <= other_x <= right and y <= other_y <= bottom)
    assert graph.evaluate(STRAY) == graph.evaluate(CROSSINGS) == 0
    assert page.locator("#graph-picture").evaluate("frame => frame.scrollWidth - frame.clientWidth") == 0
    for theme in each_theme(page):
        page.screenshot(path=pictures / f"graph-{theme}.png")


def test_a_row_step_behind_a_union_filters_rows_of_all_members(running_job: Job, page: Page) -> None:
    found = document()
    found["steps"] |= {"sold": {"from": "orders", "where": "total > 0"}}
    found["steps"]["paid"] |= {"join": ["sold", "payments"]}
    running_job.database.pipelines.describe(PIPELINE, describe(Pipeline.model_validate(found)).model_dump())
    page.goto(f"{page.url.partition('#')[0]}#graph")
    page.reload()
    graph = page.locator("#graph-picture").get_by_role("img")
    one, other = (sample("filtered_rows_total", stream=name, step="sold") for name in ("web", "stores"))
    commit_until(
        lambda timeout: expect(graph).to_have_attribute(
            "aria-label", re.compile(r"sold, row step from orders: filters [1-9]"), timeout=timeout
        ),
        running_job,
        page,
        {one: 0, other: 5000},
    )
    assert "orders, union from web, stores: of 2 streams" in (graph.get_attribute("aria-label") or "")


@pytest.mark.parametrize("width", [1280, 390])
def test_lines_of_a_large_graph_do_not_cross(
    running_job: Job, page: Page, pictures: Path, width: int
) -> None:
    """No line crosses another or comes close to a box. The text is as large as ever."""
    running_job.database.pipelines.describe(PIPELINE, wide_description().model_dump())
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{page.url.partition('#')[0]}#graph")
    page.reload()
    graph = page.locator("#graph-picture").get_by_role("img")
    expect(graph).to_have_attribute("aria-label", re.compile("invoices, topic shop.invoices: .*by_continent"))
    expect(graph).to_be_visible()  # the lines of a hidden graph have no length, so none would cross
    # The picture is not made smaller than its text can be read. The page may draw it anew at any time, and
    # text that has left the page has no height: a busy machine once measured 0 pixels.
    page.wait_for_function(
        "() => document.querySelector('#graph-picture .detail')?.getBoundingClientRect().height > 11"
    )
    assert page.locator("#graph-picture .part").count() == 5 + 8 + 7
    assert graph.evaluate(STRAY) == 0
    assert graph.evaluate(CROSSINGS) == 0
    assert page.evaluate(WIDTH_OVER) <= 0
    page.screenshot(path=pictures / f"graph-wide-{width}.png")


def test_a_small_window_scrolls_the_graph_by_keyboard(described_job: Job, page: Page) -> None:
    """A batch leaves it where it was scrolled to."""
    page.set_viewport_size({"width": 390, "height": 900})
    page.goto(f"{page.url.partition('#')[0]}#graph")
    frame = page.get_by_role("region", name="Graph", exact=True)
    expect(frame.get_by_role("img")).to_be_visible()
    frame.focus()
    page.keyboard.press("ArrowRight")
    while not frame.evaluate("frame => frame.scrollLeft"):
        page.wait_for_timeout(50)
    page.wait_for_timeout(1500)  # scrolling is animated
    scrolled = frame.evaluate("frame => frame.scrollLeft")
    described_job.commit()
    expect(page.locator("#batch")).to_have_text(f"#{described_job.batch_id}")
    page.wait_for_timeout(1500)  # ages are shown anew once a second
    assert frame.evaluate("frame => frame.scrollLeft") == scrolled > 0
    assert page.evaluate(WIDTH_OVER) <= 0


def test_a_question_is_kept_while_batches_come_and_refused_in_words(described_job: Job, page: Page) -> None:
    """It needs a token that may write. tests/browser/test_operator.py asks a job that is real."""
    page.goto(f"{page.url.partition('#')[0]}#why")
    question = page.get_by_role("region", name="Key item_id")
    value = question.get_by_label("item_id, long")
    value.focus()
    page.keyboard.type("seven")
    described_job.commit()
    expect(page.locator("#batch")).to_have_text(f"#{described_job.batch_id}")
    expect(value).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_label("Token of the sidecar").fill(WRITER)
    page.get_by_role("button", name="Use it").click()
    said = question.get_by_role("status")
    expect(said).to_contain_text("It was refused: item_id: 'seven' is no long")
    value.fill("7")
    question.get_by_role("button", name="Ask").click()
    expect(said).to_contain_text(re.compile("It was refused: .*127.0.0.1:1"))
    expect(question.get_by_role("button", name="Ask")).to_be_enabled()


def test_long_names_of_steps_fit_their_boxes_and_cards(running_job: Job, page: Page, pictures: Path) -> None:
    told = describe(FULFILMENT).model_dump_json().replace("known", LONG)
    running_job.database.pipelines.describe(PIPELINE, json.loads(told))
    page.goto(f"{page.url.partition('#')[0]}#knobs")
    page.reload()
    card = page.get_by_role("region", name=f"steps.{LONG}.lookup.time_per_batch")
    expect(card.get_by_role("heading")).to_have_text(f"steps.{LONG}.lookup.time_per_batch")
    for theme in each_theme(page):
        assert card.evaluate("card => card.scrollWidth <= card.clientWidth"), theme
        card.screenshot(path=pictures / f"long-name-{theme}.png")
    page.goto(f"{page.url.partition('#')[0]}#graph")
    part = page.locator("#graph-picture .part", has_text=f"{LONG}, lookup in customers")
    expect(part).to_be_visible()
    expect(part.locator(".title")).to_have_text(re.compile(f"^{LONG[:12]}.*\u2026$"))
    # One call finds the part and measures it: each answer of the sidecar replaces the graph, and a part that
    # was found before has no width any more.
    room = """graph => {
        const parts = [...graph.querySelectorAll(".part")];
        const part = parts.find(part => part.textContent.includes("lookup in customers"));
        const [box, title] = ["rect", ".title"].map(name => part.querySelector(name).getBBox().width);
        return [title, box];
    }"""
    title, box = page.locator("#graph-picture").evaluate(room)
    assert 0 < title < box


def test_long_names_of_streams_and_columns_fit_a_phone(running_job: Job, page: Page) -> None:
    told = describe(FULFILMENT).model_dump_json()
    told = told.replace("shipments", f"shipments_{LONG}").replace("order_id", f"order_id_{LONG}")
    running_job.database.pipelines.describe(PIPELINE, json.loads(told))
    page.set_viewport_size({"width": 390, "height": 900})
    for view, shown in (
        ("graph", page.locator("#blocks").get_by_text(f"shipments_{LONG} has sent no record")),
        ("why", page.get_by_label(f"order_id_{LONG}, long")),
    ):
        page.goto(f"{page.url.partition('#')[0]}#{view}")
        page.reload()
        expect(shown).to_be_visible()
        assert page.evaluate(WIDTH_OVER) <= 0, view


@pytest.mark.parametrize(
    ("view", "region"), [("lookup", "Measured of sellers"), ("ledger", "Promises of items")]
)
def test_a_batch_does_not_take_focus_from_who_reads_a_table(
    described_job: Job, page: Page, view: str, region: str
) -> None:
    """Its figures change where they stand."""
    page.goto(f"{page.url.partition('#')[0]}#{view}")
    read = page.locator(f"#{view}-tables").get_by_role("region", name=region, exact=True).last
    read.focus()
    before = read.inner_text()
    told = {"lookup_pending_rows{relation=sellers}": 7.0}
    described_job.commit(told=told | {"partition_punctuations_total{partition=0,stream=items}": 900.0})
    expect(page.locator("#batch")).to_have_text("#120")
    expect(read).not_to_have_text(before)
    assert read.inner_text() != before
    expect(read).to_be_focused()


def commit_until(shown: Callable[[float], None], job: Job, page: Page, told: Samples | None = None) -> None:
    """Commit batches until the page shows what they tell.

    Predictions are asked for when a batch comes. The sidecar gives all who ask the same answer for half a
    second, so the page may get one of before the batch, and it keeps that until the next one.
    """
    for tries_left in range(20, 0, -1):
        page.wait_for_timeout(2000 * SHARED_SECONDS)
        job.commit(told=told)
        try:
            shown(5_000)
        except AssertionError:
            if tries_left == 1:
                raise
        else:
            return


def test_lookup_says_what_other_memory_would_yield(described_job: Job, page: Page, pictures: Path) -> None:
    """A picture for the eye, a table with the same for all; where somebody reads in it is not lost."""
    page.goto(f"{page.url}#lookup")
    expect(page.locator("#lookup-no-plan")).to_contain_text("or endmark plan was run")
    forecasts.store(described_job.database, PIPELINE, forecast_of("sellers"))
    what_if = page.get_by_role("region", name="What if sellers had other memory")

    def predicted(most: float) -> None:
        expect(what_if).to_contain_text("200k rows/s were predicted", timeout=most)

    commit_until(predicted, described_job, page)
    expect(what_if).to_contain_text("measured in the last batches: 100k rows/s, 50.0 % of it")
    expect(page.locator("#lookup-no-plan")).to_be_hidden()
    expect(what_if.get_by_role("img", name="rows a second for sellers by memory")).to_be_visible()
    figures = what_if.get_by_role("region", name="Predicted for sellers, by memory")
    rows = figures.get_by_role("row")
    expect(rows).to_have_count(6)
    expect(rows.nth(1)).to_have_text(re.compile(r"12.5.MB\s*100k.*50.0k.*batched$"))
    expect(rows.nth(3)).to_have_text(re.compile(r"50.0.MB \(as planned\)\s*100k.*200k.*hybrid$"))
    figures.focus()
    described_job.commit()
    expect(page.locator("#batch")).to_have_text(f"#{described_job.batch_id}")
    expect(figures).to_be_focused()
    for theme in each_theme(page):
        what_if.screenshot(path=pictures / f"what-if-{theme}.png")


def test_lookup_names_its_strategy_and_what_auto_would_choose(
    described_job: Job, page: Page, pictures: Path
) -> None:
    """By the figures that the job reports. A turn of the strategy shows with the next batch."""
    page.goto(f"{page.url}#lookup")
    strategy = page.get_by_role("region", name="Strategy of sellers")
    cheap_keys = {"lookup_cost_seconds{of=key,relation=sellers}": 1e-5}

    def hybrid(most: float) -> None:
        says = "In force is hybrid (HYBRIDJOIN): it reads the pages of the oldest waiting rows"
        expect(strategy).to_contain_text(says, timeout=most)

    commit_until(hybrid, described_job, page, costs_of("sellers", 20_000.0) | cheap_keys)
    waited = r"1\.23k.rows waited on average\. So a read takes [\d.]+.ms and answers [\d.]+.rows: "
    expect(strategy).to_contain_text(re.compile(waited + r"[\d.]+k?.rows/s predicted on one core"))
    instead = r"auto would choose batched instead: the keys of the oldest waiting rows, in lists of 2,000\. "
    expect(strategy).to_contain_text(re.compile(instead + r"By what reads cost .*, [\d.]+ times as many\."))
    described_job.database.turns.record(
        PIPELINE,
        described_job.batch_id,
        [turn_of("steps.known.lookup.strategy", "auto")],
        {"steps.known.lookup.strategy": "hybrid"},
    )

    def auto(most: float) -> None:
        expect(strategy).to_contain_text("It would now choose batched: the keys", timeout=most)

    commit_until(auto, described_job, page, costs_of("sellers", 20_000.0) | cheap_keys)
    expect(strategy).to_contain_text("In force is auto: it reads the cheapest pages or keys")
    assert page.evaluate(WIDTH_OVER) <= 0
    strategy.screenshot(path=pictures / "strategy.png")


def test_join_holds_its_predicted_state_against_the_measured_one(
    described_job: Job, page: Page, pictures: Path
) -> None:
    """The measured batches are later than those of the prediction. Other presets stand below."""
    page.goto(f"{page.url}#join")
    figures = page.get_by_role("region", name="State of the join, predicted and measured")
    rows = figures.get_by_role("row")
    expect(rows.nth(3)).to_have_text(re.compile(r"Rows of both\s*\u2013\s*[\d.]+k.rows\s*\u2013$"))
    expect(page.locator("#join-no-plan")).to_contain_text(
        "once endmark plan FILE --ops-url URL has predicted"
    )
    batch = described_job.database.batches.latest(PIPELINE)
    assert batch is not None
    forecast = join_forecast_of(20_000.0, batch.committed_at)
    forecasts.store(described_job.database, PIPELINE, forecast)
    name = re.compile("Preset auto, windows: 60.s for items, 10.s for bids")
    block = page.get_by_role("region", name=name)
    told = {
        f"{name}{{operator=join,stream={stream}}}": of_row * count
        for stream, count in (("items", 10_000.0), ("bids", 20_000.0))
        for name, of_row in (("state_rows", 1), ("state_bytes", 60))
    }
    told["pending_punctuations{stream=items,waits_for=window}"] = 38.5  # of 11 keys a second

    def move_on() -> None:
        told["progress_event_time_seconds{stream=items}"] = 1.8e9 + described_job.batch_id + 1

    def measured(most: float) -> None:
        move_on()
        says = re.compile(r"Rows of items\s*20.0k.rows\s*10.0k.rows\s*50.0.%")
        expect(rows.nth(1)).to_have_text(says, timeout=most)

    move_on()
    commit_until(measured, described_job, page, told)
    predicted = r"Predicted by endmark plan 2.h.* ago, from the batches up to .* ago\. "
    expect(block).to_contain_text(re.compile(predicted + r"Measured: the average of .* later batch"))
    expect(rows.nth(2)).to_have_text(re.compile(r"Rows of bids\s*20.0k.rows\s*20.0k.rows\s*100.%"))
    expect(rows.nth(3)).to_have_text(re.compile(r"Rows of both\s*40.0k.rows\s*30.0k.rows\s*75.0.%"))
    expect(rows.nth(4)).to_have_text(re.compile(r"Bytes of both\s*2.00.MB\s*1.80.MB\s*90.0.%"))
    expect(rows.nth(5)).to_have_text(re.compile(r"Time until .* announced\s*8.s\s*4.s\s*50.0.%"))
    premises = r"a punctuation every 800.rows, no key of it is closed; the streams close a key 20.s apart, "
    expect(block).to_contain_text(re.compile(premises + r"items first for 90\.0.%\."))
    expect(page.locator("#join-no-plan")).to_be_hidden()
    others = page.get_by_role("region", name="State of the join under other presets").get_by_role("row")
    expect(others).to_have_count(3)
    expect(others.nth(1)).to_have_text(re.compile(r"pjoin\s*punctuations\s*120k.rows\s*6.00.MB\s*never"))
    expect(others.nth(2)).to_have_text(re.compile(r"shj\s*nothing\s*grow for ever\s*grows for ever\s*never"))
    figures.focus()
    described_job.commit()
    expect(page.locator("#batch")).to_have_text(f"#{described_job.batch_id}")
    expect(figures).to_be_focused()
    for theme in each_theme(page):
        page.locator("#view-join").screenshot(path=pictures / f"join-{theme}.png")


def test_a_prediction_for_other_windows_is_not_held_against_the_job(described_job: Job, page: Page) -> None:
    forecast = join_forecast_of(20_000.0).model_copy(update={"windows": [30.0, None]})
    forecasts.store(described_job.database, PIPELINE, forecast)
    page.goto(f"{page.url}#join")
    expect(page.locator("#join-other-plan")).to_contain_text("for another preset, for other windows")
    expect(page.locator("#join-no-plan")).to_be_visible()
    rows = page.get_by_role("region", name="State of the join, predicted and measured").get_by_role("row")
    expect(rows.nth(1)).to_have_text(re.compile(r"Rows of items\s*\u2013\s*[\d.]+k.rows\s*\u2013$"))


def test_a_stream_alone_has_no_view_of_a_join(
    running_job: Job, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lookup leads to the tables, its promises free no rows, and its silence holds up nobody."""
    monkeypatch.setenv("ENDMARK_RELATION_URL", "sqlite://")
    running_job.database.pipelines.describe(PIPELINE, describe(alone(load(AUCTION), "bids")).model_dump())
    page.goto(f"{page.url.partition('#')[0]}#join")
    page.reload()
    links = page.get_by_role("navigation", name="Views").get_by_role("link")
    expect(links).to_have_text([name for name in VIEWS if name != "Join"])
    expect(page.locator(".view:visible")).to_have_count(1)
    expect(page.locator("#view-live")).to_be_visible()
    page.goto(f"{page.url.partition('#')[0]}#graph")
    graph = page.locator("#graph-picture").get_by_role("img")
    shown = re.compile(
        r"^bids, topic bids: .*; known, lookup in sellers from bids: 1.23k.rows wait; "
        r"by_key, aggregate from known: .*; results, table from known: [^;]*; groups, table from by_key: "
    )
    expect(graph).to_have_attribute("aria-label", shown)
    running_job.commit(age=900)
    running_job.commit(age=300, told={"records_total{stream=bids}": 0.0})
    expect(page.locator("#blocks")).to_contain_text(re.compile(r"bids has sent no record for 1[5-9].min"))
    expect(page.locator("#blocks")).not_to_contain_text("keep for it")
    page.goto(f"{page.url.partition('#')[0]}#ledger")
    ledger = page.locator("#ledger-tables")
    expect(ledger).to_contain_text("of its rows were violations")
    expect(ledger).not_to_contain_text("freed")


def turn_of(name: str, value: object) -> dict[str, object]:
    told = {"partition": 0, "offset": 0, "set_at": 1.0, "by": "Ann", "name": name, "value": value}
    return told | {"refused": None, "why": None}


def test_turns_and_replays_of_other_days_have_their_date(
    described_job: Job, page: Page, tmp_path: Path
) -> None:
    """A turn of three weeks ago looked as if it were of today."""
    described_job.database.turns.record(PIPELINE, 5, [turn_of("batch.records", 600)], {})
    with described_job.database.engine.begin() as connection:
        place = {"pipeline": PIPELINE, "topic": "bids", "partition": 0, "offset": 59}
        done = {"at": 1.0, "by": "Ann", "changed": False, "to_offset": 60}
        connection.execute(replays.insert().values(**place, **done))
    page.goto(f"{page.url}#knobs")
    turn = page.get_by_role("region", name="Turned so far").get_by_role("row").last
    expect(turn).to_contain_text(re.compile(r"1970.*Ann.*batch\.records"))
    page.goto(f"{page.url.partition('#')[0]}#letters")
    letter = page.get_by_role("row", name="bids/0/59")
    expect(letter).to_contain_text(re.compile(r"replayed by Ann at .*1970"))


def test_memory_is_moved_by_what_the_job_measures(described_job: Job, page: Page, pictures: Path) -> None:
    """By keyboard, said to screen readers; new batches change what is predicted, not what is chosen."""
    page.goto(f"{page.url}#lookup")
    what_if = page.get_by_role("region", name="What if sellers had other memory")

    def live(most: float) -> None:
        says = "500,000 rows in pages of 500, batches of 20,000 stream rows"
        expect(what_if).to_contain_text(says, timeout=most)

    commit_until(live, described_job, page, costs_of("sellers", 20_000.0))
    expect(what_if).to_contain_text("Predicted by what reads cost in the last batches")
    slider = what_if.get_by_role("slider", name="Memory of rows that wait for sellers")
    turn = what_if.get_by_role("button", name="Turn steps.known.lookup.memory to")
    expect(turn).to_be_disabled()
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("32.0.MB"))
    said = what_if.get_by_role("status").first
    expect(said).to_contain_text(re.compile(r"With 32.0.MB: .*rows/s"))
    before = said.inner_text()

    def another(most: float) -> None:
        expect(said).not_to_have_text(before, timeout=most)

    commit_until(another, described_job, page, costs_of("sellers", 20_000.0, page=2e-2))
    expect(slider).to_be_focused()
    expect(slider).to_have_value("6")
    rows = what_if.get_by_role("region", name="Predicted for sellers, by memory").get_by_role("row")
    expect(rows).to_have_count(10)
    expect(rows.nth(5)).to_contain_text("(as it is)")
    even = rows.nth(5).inner_text()
    page.get_by_label("Skew of the keys").fill("1")
    page.get_by_label("Skew of the keys").press("Enter")
    expect(what_if).to_contain_text("by Zipf's law with exponent 1")
    assert rows.nth(5).inner_text() != even
    turn.focus()
    page.keyboard.press("Enter")
    page.get_by_label("Token of the sidecar").fill(WRITER)
    page.get_by_role("button", name="Use it").click()
    expect(what_if.get_by_role("status").last).to_contain_text("no Kafka broker at 127.0.0.1:1")
    assert page.evaluate(WIDTH_OVER) <= 0
    what_if.screenshot(path=pictures / "what-if-live.png")


def test_a_stream_is_idle_when_batches_come_without_it(described_job: Job, page: Page) -> None:
    """Not while a batch as long as the last one may be running: it may be reading the stream."""
    page.goto(f"{page.url}#graph")
    # Minutes, since the ages grow while a busy machine takes its time.
    slow = {"batch_seconds{phase=total}": 600.0}
    described_job.commit(age=900, told=slow)
    described_job.commit(age=300, told=slow | {"records_total{stream=items}": 0.0})
    blocks = page.locator("#blocks")
    expect(blocks).to_contain_text(re.compile(r"items has sent no record for 1[5-9].min.*: what bids keep"))
    expect(blocks).not_to_contain_text("bids has sent no record")
    expect(
        page.get_by_role("img", name="items, topic items: idle: no record; bids, topic bids: ")
    ).to_be_visible()


def test_a_letter_that_is_closed_gives_focus_back_to_its_row(described_job: Job, page: Page) -> None:
    """Whoever has a keyboard alone would begin at the top of the page again."""
    page.goto(f"{page.url}#letters")
    row = page.get_by_role("button", name="bids/0/17", exact=True)
    row.press("Enter")
    expect(page.get_by_role("heading", name="Record bids/0/17")).to_be_focused()
    page.get_by_role("button", name="Close").press("Enter")
    expect(row).to_be_focused()


def test_letters_are_searched_page_by_page(described_job: Job, page: Page) -> None:
    """A payload is text, whatever it is; search goes by topic, reason and text."""
    page.goto(f"{page.url}#letters")
    letters = page.get_by_role("region", name="Dead letters").last
    expect(letters.get_by_role("row")).to_have_count(51)
    page.get_by_role("button", name="Older ones").press("Enter")
    expect(letters.get_by_role("row")).to_have_count(12)
    expect(page.get_by_role("button", name="Older ones")).to_be_hidden()
    expect(letters).to_be_focused()  # the button has gone, and a keyboard goes on from here
    page.get_by_label("Reason").fill("wrong_type")
    page.get_by_label("Reason").press("Enter")
    expect(letters.get_by_role("row")).to_have_count(2)
    page.get_by_role("button", name="items/0/7").click()
    expect(page.get_by_label("Value, to be mended")).to_have_value("(no value)")
    page.get_by_label("Reason").fill("")
    page.get_by_label("Text in it").fill("ONERROR")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("button", name="bids/0/59").click()
    expect(page.get_by_label("Value, to be mended")).to_have_value(HOSTILE.decode())
    assert page.locator(".view img").count() == 0
    page.get_by_label("Text in it").fill("a" * 201)
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_text("It was refused: String should have at most 200 characters")).to_be_visible()


def test_an_untouched_letter_is_replayed_as_it_is(described_job: Job, page: Page, tmp_path: Path) -> None:
    """A text area has other line ends than the record, which must not count as a change."""
    write_letters(tmp_path / "dead_letters", [("bids", 0, 99, "not_json", "no JSON", b"{\r\n}\r\n")])
    page.goto(f"{page.url}#letters")
    page.get_by_role("button", name="bids/0/99").click()
    for mended, sent in ((None, None), ("{}", "{}")):
        if mended is not None:
            page.get_by_label("Value, to be mended").fill(mended)
        with page.expect_request("**/dead-letters/replay") as asked:
            page.get_by_role("button", name="Replay").click()
        assert asked.value.post_data_json == {"at": "bids/0/99", "text": sent}
        expect(page.get_by_role("dialog", name="Token")).to_be_visible()
        page.keyboard.press("Escape")


def test_a_token_that_cannot_be_is_refused_and_one_without_the_right_replaced(
    described_job: Job, page: Page
) -> None:
    """A header takes no letter such as an ellipsis, and the tab kept it for ever."""
    page.goto(f"{page.url}#knobs")
    card = page.get_by_role("region", name="steps.matched.purge_every")
    card.get_by_label("New value").fill("4")
    card.get_by_role("button", name="Turn", exact=True).click()
    token, use = page.get_by_label("Token of the sidecar"), page.get_by_role("button", name="Use it")
    token.fill("pasted…")
    use.click()
    assert page.evaluate("sessionStorage.length") == 0
    token.fill(OF_ORDERS)
    use.click()
    expect(page.get_by_role("dialog", name="Token")).to_contain_text("is not for this pipeline")
    token.fill(WRITER)
    use.click()
    expect(card.get_by_role("status")).to_contain_text("no Kafka broker at 127.0.0.1:1")


def test_a_knob_is_turned_only_with_a_token_that_may(described_job: Job, page: Page) -> None:
    """The page asks for it, takes no for an answer, and keeps it for the tab alone."""
    page.goto(f"{page.url}#knobs")
    card = page.get_by_role("region", name="steps.matched.purge_every")
    card.get_by_label("New value").fill("0")
    card.get_by_role("button", name="Turn", exact=True).click()
    asked = page.get_by_role("dialog", name="Token")
    expect(asked).to_be_visible()
    page.keyboard.press("Escape")
    expect(card.get_by_role("status")).to_contain_text("this needs a token")
    for token, says in (
        (READER, None),
        (WRITER, "It was refused: steps.matched.purge_every: Input should be greater"),
    ):
        if says is None:
            card.get_by_role("button", name="Turn", exact=True).click()
        page.get_by_label("Token of the sidecar").fill(token)
        page.get_by_role("button", name="Use it").click()
        if says is not None:
            expect(card.get_by_role("status")).to_contain_text(says)
    card.get_by_label("New value").fill("4")
    card.get_by_role("button", name="Turn", exact=True).click()
    expect(card.get_by_role("status")).to_contain_text("no Kafka broker at 127.0.0.1:1")
    assert page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 1, ""]


@pytest.mark.parametrize("reach", [{"tokens": f"bob:read:{READER}"}])
def test_who_may_not_read_is_asked_for_a_token_once(running_job: Job, page: Page) -> None:
    """The page reads every second. Whoever had no token could not keep the dialog closed. Links that need the
    token, which a browser does not send with them, are hidden once there is one."""
    asked = page.get_by_role("dialog", name="Token")
    expect(asked).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("alert")).to_contain_text("Reload this page to be asked again")
    for _ in range(2):
        with page.expect_response(lambda answer: answer.status == 401, timeout=20_000):
            pass
    expect(asked).to_be_hidden()
    page.reload()
    page.get_by_label("Token of the sidecar").fill(READER)
    metrics = page.get_by_text("Prometheus metrics")
    expect(metrics).to_be_visible()
    for _ in range(2):
        page.keyboard.press("Enter")
        expect(page.locator("#batch")).to_have_text("#119")
        expect(metrics).to_be_hidden()
        expect(page.get_by_role("link", name="OpenAPI")).to_be_visible()
        page.reload()


@pytest.mark.parametrize("reach", [{"tokens": f"bob:read:{READER}"}])
def test_an_answer_to_a_request_without_a_token_that_comes_late_asks_for_none(
    running_job: Job, page: Page
) -> None:
    """The dialog was shown once more, above a page that had its token, and the page had no figures."""
    late, address = list[Route](), page.url
    page.goto("about:blank")
    page.route("**/status", lambda route: route.continue_() if late else late.append(route))
    with page.expect_request("**/status"):
        page.goto(address)
    page.get_by_label("Token of the sidecar").fill(READER)
    page.keyboard.press("Enter")
    asked = page.get_by_role("dialog", name="Token")
    expect(asked).to_be_hidden()
    late[0].fulfill(status=401, json={"detail": "this needs a token"})
    expect(page.locator("#batch")).to_have_text("#119")
    expect(asked).to_be_hidden()


def test_the_page_says_what_any_field_takes(described_job: Job, page: Page) -> None:
    """Beside what is turned here, on a click."""
    page.goto(f"{page.url}#knobs")
    table = page.get_by_role("region", name="Fields of the pipeline file")
    expect(page.get_by_role("region", name="steps.known.lookup.page_rows")).to_contain_text("live")
    expect(table).to_be_hidden()
    page.get_by_text("What another value of any field takes").click()
    expect(table.get_by_role("row")).to_have_count(len(LINES) + 1)
    expect(table.get_by_role("row", name="publish")).to_contain_text("restart")
    expect(page.get_by_text("new checkpoint: stop the job, change the file")).to_be_visible()
