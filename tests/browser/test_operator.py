"""An operator with the page alone, beside a real job: turns a knob, mends a record, sees an idle input."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest
from deltalake import DeltaTable
from kafka import KafkaProducer
from playwright.sync_api import Locator, Page, expect

from browser.axe import axe_script, violations
from endmark.control.ops_database.database import OpsDatabase
from endmark.demo.choreography import json_lines
from endmark.embedded.broker import Broker
from endmark.embedded.process import ManagedProcess
from endmark.metrics import Samples
from endmark.pipelines import AUCTION
from endmark_feed.auction_feed import FeedOptions
from endmark_feed.producer import create_topics
from support.ops_sidecar import STOP_SECONDS
from support.ops_tokens import WRITER
from support.warehouse import START_SECONDS, Warehouse, wait_for

pytestmark = pytest.mark.timeout(1800)

SELLERS = FeedOptions(seed=5, sellers=20)
CACHED = "lookup_cached_rows_total{relation=sellers}"
MENDED = 999_999  # an item that stays open
SET = {  # that the auction has no need of
    "page_rows: 500": "cache: {lifetime: 0s}",
    "{column: listed_at}": "{column: listed_at, idle: 10m}",
}


class Feed(threading.Thread):
    """An item, a bid and their closing every 200 ms, until `stopped`; `silent` streams send nothing."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.stopped = threading.Event()
        self.silent: set[str] = set()
        self._producer = KafkaProducer(bootstrap_servers=bootstrap)

    def run(self) -> None:
        self.send("items", item(MENDED))
        for number in count(1):
            self.send("items", item(number), over(number))
            self.send("bids", bid(number), over(number))
            if self.stopped.wait(0.2):
                break
        self._producer.close()

    def send(self, topic: str, *records: dict[str, object]) -> None:
        if topic not in self.silent:
            for record in records:
                self._producer.send(topic, json.dumps(record).encode(), partition=0)


def item(number: int) -> dict[str, object]:
    place = {"item_id": number, "seller_id": 1, "category": "art", "start_price": 1.0}
    return place | {"listed_at": "2026-01-01T00:00:00Z"}


def bid(number: int, price: object = 2.0) -> dict[str, object]:
    place = {"bid_id": number, "item_id": number, "seller_id": 1 + number % 20, "bidder_id": 1}
    return place | {"price": price, "bid_at": "2026-01-01T00:00:01Z"}


def over(number: int) -> dict[str, object]:
    return {"$punctuation": {"item_id": {"equals": number}}}


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    pipeline = tmp_path / "auction.yaml"
    text = AUCTION.read_text()
    for said, instead in SET.items():
        assert said in text
        text = text.replace(said, instead)
    pipeline.write_text(text)
    with Broker(tmp_path / "broker") as broker:
        create_topics(broker.bootstrap, {"items": 1, "bids": 1})
        yield Warehouse(tmp_path, broker, f"sqlite:///{tmp_path / 'relation.db'}", SELLERS, pipeline)


@pytest.fixture
def url(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Start the sidecar by its command, and yield its URL."""
    monkeypatch.setenv("ENDMARK_OPS_TOKENS", f"ann:write:{WRITER}")
    monkeypatch.setenv("ENDMARK_WAREHOUSE", str(warehouse.directory / "warehouse"))
    reach = [f"--ops-url={warehouse.ops_url}", f"--bootstrap={warehouse.broker.bootstrap}"]
    command = [sys.executable, "-m", "endmark.cli", "ops", *reach, "--port=0", "--json"]
    sidecar = ManagedProcess("ops", command, warehouse.directory / "ops.log", stop_seconds=STOP_SECONDS)
    sidecar.wait_ready(lambda: bool(json_lines(sidecar.log)), START_SECONDS)
    yield json_lines(sidecar.log)[0]["url"]
    sidecar.stop()


def test_an_operator_needs_the_page_alone(warehouse: Warehouse, page: Page, pictures: Path) -> None:
    job = warehouse.start_job("--set=batch.every=500ms")
    feed = Feed(warehouse.broker.bootstrap)
    feed.start()
    wait_for(lambda: warehouse.batches() > 0, job, seconds=400)
    page.wait_for_url("**/pipelines/auction/")  # the list has opened its only pipeline
    base = page.url
    page.goto(f"{base}#knobs")
    _turn_a_knob(warehouse, page, job)
    _turn_the_others(warehouse, page, job)
    page.screenshot(path=pictures / "operator-knobs.png", full_page=True)
    feed.send("bids", bid(MENDED, "two"))
    wait_for(lambda: "dead_letters_total{reason=wrong_type,stream=bids}" in _totals(warehouse), job)
    page.goto(f"{base}#letters")
    _mend_a_record(page)
    page.screenshot(path=pictures / "operator-letters.png", full_page=True)
    wait_for(lambda: MENDED in _joined(warehouse), job)
    page.goto(f"{base}#why")
    _ask_why(page)
    page.screenshot(path=pictures / "operator-why.png", full_page=True)
    assert violations(page, axe_script(warehouse.directory)) == []
    feed.silent.add("items")
    page.goto(f"{base}#graph")
    expect(page.get_by_role("img", name="items: idle")).to_be_visible(timeout=180_000)
    expect(page.locator("#blocks")).to_contain_text(
        re.compile(r"items has sent no record for [\s\w]+: what bids keep")
    )
    expect(page.locator("#blocks")).not_to_contain_text("bids has sent no record")
    page.screenshot(path=pictures / "operator-graph.png", full_page=True)
    feed.stopped.set()
    feed.join()
    job.stop()
    report = warehouse.verify()

    assert report.ok, report.to_json()


def _turn_a_knob(warehouse: Warehouse, page: Page, job: ManagedProcess) -> None:
    """It holds from the batch after the one that read of it, as the metrics of each batch say."""
    card = page.get_by_role("region", name="steps.known.lookup.strategy")
    expect(card).to_contain_text("It is hybrid.")
    card.get_by_label("New value").select_option("inlj")
    card.get_by_role("button", name="Turn", exact=True).click()
    page.get_by_label("Token of the sidecar").fill(WRITER)
    page.get_by_role("button", name="Use it").click()
    said = card.get_by_role("status")
    expect(said).to_contain_text(
        re.compile(r"Read by batch \d+; it holds from batch \d+ on"), timeout=180_000
    )
    expect(card).to_contain_text("It is inlj.")
    history = page.get_by_role("region", name="Turned so far").get_by_role("row").last
    expect(history).to_contain_text(re.compile(r"ann.*lookup\.strategy.*hybrid.*inlj"))
    read_by = int(said.inner_text().split("Read by batch ")[1].split(";")[0])
    wait_for(lambda: warehouse.batches() > read_by + 2, job)
    with closing(OpsDatabase(warehouse.ops_url)) as ops:
        batches = ops.batches.after("auction", -1, 1000)
    kinds = {
        batch.batch_id: (_reads(batch.samples, "page"), _reads(batch.samples, "list")) for batch in batches
    }
    assert all(lists == 0 for number, (_, lists) in kinds.items() if number <= read_by)
    assert all(pages == 0 for number, (pages, _) in kinds.items() if number > read_by)
    assert sum(lists for number, (_, lists) in kinds.items() if number > read_by) > 0
    metrics = page.request.get(page.url.partition("pipelines/")[0] + "metrics").text()
    assert re.search(r'endmark_lookup_reads_total\{by="list",.*\} [1-9]', metrics)


def _turn_the_others(warehouse: Warehouse, page: Page, job: ManagedProcess) -> None:
    """Each is read, holds, and is in the history; batches say what has come of it. A refusal says why."""
    card = _card(page, "steps.known.lookup.page_rows")
    card.get_by_label("New value").fill("0")
    card.get_by_role("button", name="Turn", exact=True).click()
    expect(card.get_by_role("status")).to_contain_text(
        "It was refused: steps.known.lookup.page_rows: Input should be greater"
    )
    expect(card).to_contain_text("It is 500.")
    _turned(page, "steps.known.lookup.page_rows", "4", "4")
    _turned(page, "streams.items.event_time.idle", "8m", "480")
    _turned(page, "steps.known.lookup.cache.memory", "1MB", "1000000")
    cached = _turned(page, "steps.known.lookup.cache.lifetime", "5m", "300")
    few = _turned(page, "batch.records", "12", "12")
    wait_for(lambda: warehouse.batches() > few + 4, job)
    _turned(page, "batch.every", "1h", "3600")
    soon = _turned(page, "batch.every", "500ms", "0.5")
    _card(page, "batch.records").get_by_role("button", name="As in the file").click()
    expect(_card(page, "batch.records")).to_contain_text("It is 20000.", timeout=180_000)
    with closing(OpsDatabase(warehouse.ops_url)) as ops:
        batches = {batch.batch_id: batch.samples for batch in ops.batches.after("auction", -1, 1000)}
    cached_rows = {number: samples[CACHED] for number, samples in batches.items()}
    assert sum(rows for number, rows in cached_rows.items() if number <= cached) == 0
    assert sum(rows for number, rows in cached_rows.items() if number > cached) > 0
    records = {
        number: sum(count for name, count in samples.items() if name.startswith("records_total"))
        for number, samples in batches.items()
    }
    assert 0 < max(count for number, count in records.items() if few + 1 < number <= soon) <= 12, records
    assert batches[max(batches)]["lookup_pages{relation=sellers}"] == SELLERS.sellers / 4


def _card(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def _turned(page: Page, name: str, value: str, held: str) -> int:
    """Turn a knob on the page; returns the batch that has read of it."""
    card = _card(page, name)
    before = card.get_by_role("status").inner_text()
    card.get_by_label("New value").fill(value)
    card.get_by_role("button", name="Turn", exact=True).click()
    said = card.get_by_role("status")
    expect(said).not_to_have_text(before)
    expect(said).to_contain_text(
        re.compile(r"Read by batch \d+; it holds from batch \d+ on"), timeout=180_000
    )
    expect(card).to_contain_text(f"It is {held}.")
    last = page.get_by_role("region", name="Turned so far").get_by_role("row").nth(1)
    expect(last).to_contain_text(re.compile(rf"ann.*{re.escape(name)}.*{held}.*batch \d+"))
    return int(said.inner_text().split("Read by batch ")[1].split(";")[0])


def _mend_a_record(page: Page) -> None:
    page.get_by_label("Text in it").fill("TWO")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("button", name="bids/0/").click()
    value = page.get_by_label("Value, to be mended")
    value.fill(value.input_value().replace('"two"', "2.5"))
    page.get_by_role("button", name="Replay").click()
    record = page.get_by_role("region", name="Record bids/0/")
    expect(record.get_by_role("status")).to_contain_text(
        re.compile(r"replayed by ann at .*, is offset \d+ now")
    )
    expect(record.get_by_role("button", name="Replay")).to_be_disabled()


def _ask_why(page: Page) -> None:
    """The item that stays open has an item and a bid, and no stream has closed it."""
    page.get_by_label("item_id, long").fill(str(MENDED))
    page.keyboard.press("Enter")
    answer = page.get_by_role("region", name="open", exact=False).filter(has_text=f"item_id={MENDED} is open")
    expect(answer.first).to_contain_text(
        re.compile(r"because .* has not closed it: .* punctuation"), timeout=60_000
    )
    expect(answer.first.get_by_role("listitem").filter(has_text="bids: ")).to_contain_text(
        "has not closed it"
    )


def _reads(samples: Samples, by: str) -> float:
    return samples[f"lookup_reads_total{{by={by},relation=sellers}}"]


def _totals(warehouse: Warehouse) -> Samples:
    batch = warehouse.batch()
    return batch.totals if batch is not None else {}


def _joined(warehouse: Warehouse) -> list[int]:
    table = DeltaTable(warehouse.directory / "warehouse" / "results")
    return [
        int(number) for number in table.to_pyarrow_table(columns=["bids_bid_id"])["bids_bid_id"].to_pylist()
    ]
