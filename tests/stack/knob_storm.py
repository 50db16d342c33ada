"""Many clients turn knobs at once while the job is killed and restarted: the audit is one order, and every
table is right. Another job that reads all of it in other batches comes to the same.

Run by `make test-knobs`, never by `make test`; it takes some minutes.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import threading
import time
import urllib.request
from contextlib import closing
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from endmark.control.ops_database.database import OpsDatabase
from endmark.control.tuning.autotune import WHO
from endmark.control.tuning.knobs import filed, knobs_of, steps_of, turned
from endmark.embedded.broker import Broker
from endmark.operators.lookup.strategies import STRATEGIES
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION
from endmark_feed.auction_feed import FeedOptions
from support.ops_sidecar import Sidecar
from support.warehouse import Warehouse, wait_for

VALUES: dict[str, list[Any]] = {
    "steps.known.lookup.strategy": list(STRATEGIES),
    "steps.known.lookup.page_rows": [37, 500, 3_000],
    "steps.known.lookup.time_per_batch": ["0s", "100ms", "1s", None],
    "steps.known.lookup.memory": ["100kB", "1MB", 64_000_000],
    "steps.known.lookup.cache.memory": ["20kB", "1MB", 64_000_000],
    "steps.known.lookup.cache.lifetime": ["1s", "10s", "5m"],
    "steps.known.lookup.cache.absent_lifetime": ["0s", "1s", "10s"],
    "steps.matched.purge_every": [1, 2, 7, 40],
    "steps.matched.memory": ["100kB", "10MB", None],
    "batch.records": [3_000, 20_000, 500_000],
    "batch.every": ["0s", "500ms", "1s"],
    "streams.items.event_time.idle": ["5s", "20s", "5m"],
    "streams.bids.event_time.idle": ["5s", "20s", "5m"],
}
_TAIL = "0123456789abcdef"  # of each token
_SET = {  # that the auction has no need of; to so many records a batch is all read once more
    "records: 20000": "records: 10000",
    "page_rows: 500": "page_rows: 500, cache: {}, autotune: true",
    "    on: item_id\n": "    on: item_id\n    autotune: true\n",
    "{column: listed_at}": "{column: listed_at, idle: 20s}",
    "{column: bid_at}": "{column: bid_at, idle: 20s}",
}


class Batches(threading.Thread):
    """How many there are, for all who wait for the next one."""

    def __init__(self, warehouse: Warehouse) -> None:
        super().__init__(daemon=True)
        self.stopped = threading.Event()
        self._warehouse = warehouse
        self._count = 0
        self._more = threading.Condition()

    def run(self) -> None:
        while not self.stopped.wait(0.2):
            count = self._warehouse.batches()
            with self._more:
                self._count, before = count, self._count
                if count != before:
                    self._more.notify_all()

    def wait_for_next(self, seconds: float) -> None:
        """At most so long."""
        with self._more:
            before = self._count
            self._more.wait_for(lambda: self._count != before, seconds)


class Client(threading.Thread):
    """Turns knobs by HTTP, one after each batch, with a token of its own.

    `sent` has who sent what, by the offset of its record.
    """

    def __init__(
        self, name: str, url: str, changes: list[tuple[str, Any]], batches: Batches, patience: float
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.sent: dict[int, tuple[str, str, Any]] = {}
        self._url = url
        self._changes = changes
        self._batches = batches
        self._patience = patience

    def run(self) -> None:
        for knob, value in self._changes:
            request = urllib.request.Request(  # noqa: S310  # a loopback address of ours
                f"{self._url}api/pipelines/auction/knobs/{knob}",
                json.dumps({"value": value}).encode(),
                {"Authorization": f"Bearer {self.name}-{_TAIL}", "Content-Type": "application/json"},
                method="PUT",
            )
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
                self.sent[json.load(answer)["offset"]] = (self.name, knob, value)
            self._batches.wait_for_next(self._patience)


@dataclass(frozen=True)
class Storm:
    """How much of it: after a change each client waits for a batch, `patience` seconds at most, so that some
    are sent while there is no job."""

    changes: int = 1_000
    clients: int = 8
    kills: int = 3
    patience: float = 10.0
    seed: int = 0


def weathered(storm: Storm, directory: Path) -> dict[str, Any]:
    """What happened, in figures.

    Raises:
        AssertionError: the audit is not what was sent, or a table is wrong.
    """
    started = time.monotonic()
    feed = FeedOptions(seed=storm.seed, minutes=1.5, rate=1_500, sellers=5_000, bad_rate=0.002)
    with Broker(directory / "broker") as broker:
        relation_url, pipeline = f"sqlite:///{directory / 'relation.db'}", _pipeline(directory)
        warehouse = Warehouse(directory, broker, relation_url, feed, pipeline)
        sent = _turned_and_killed(storm, warehouse)
        warehouse.run_to_the_end()
        audit = _checked_audit(warehouse, sent)
        read_by = {turn["batch_id"] for turn in audit}
        least = storm.changes // storm.clients * 4 // 5
        assert len(read_by) >= least, f"{len(read_by)} batches read all turns: raise --patience"
        report = warehouse.verify()
        assert report.ok, report.to_json()
        (directory / "again").mkdir()
        again = Warehouse(directory / "again", broker, relation_url, feed, pipeline)
        again.run_to_the_end()
        assert [_said(turn) for turn in _checked_audit(again, sent)] == [_said(turn) for turn in audit]
        repeated = again.verify()
        assert repeated.ok, repeated.to_json()
    return asdict(storm) | {
        "batches": warehouse.batches(),
        "batches_with_turns": len(read_by),
        "batches_again": again.batches(),
        "tuned": sum(turn["by"] == WHO for turn in audit),
        "rows": {table.table: table.actual for table in report.tables},
        "seconds": round(time.monotonic() - started),
    }


def _pipeline(directory: Path) -> Path:
    """The auction with all knobs there are, of which the job turns some by itself."""
    text = AUCTION.read_text()
    for old, new in _SET.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path = directory / "auction.yaml"
    path.write_text(text)
    return path


def _turned_and_killed(storm: Storm, warehouse: Warehouse) -> dict[int, tuple[str, str, Any]]:
    """Feed, job and clients together, to the end of all three; what was sent, by the offset of its record."""
    chance = random.Random(storm.seed)
    feed = threading.Thread(target=warehouse.feed)
    feed.start()
    job = warehouse.start_job()
    wait_for(lambda: warehouse.batches() > 0, job, seconds=400)
    names = [f"client-{number}" for number in range(storm.clients)]
    reach = {"tokens": ",".join(f"{name}:write:{name}-{_TAIL}" for name in names)}
    # So the job has turned some itself, which people then do.
    wait_for(lambda: _tuned(warehouse) > 0, job, seconds=60)
    sidecar = Sidecar(warehouse.ops_url, reach=reach | {"bootstrap": warehouse.broker.bootstrap})
    sidecar.start()
    each, batches = storm.changes // storm.clients, Batches(warehouse)
    batches.start()
    crowd = [Client(name, sidecar.url, _changes(chance, each), batches, storm.patience) for name in names]
    for client in crowd:
        client.start()
    for _ in range(storm.kills):
        time.sleep(chance.uniform(4, 8))
        job.kill()
        before = warehouse.batches()
        job = warehouse.start_job()
        wait_for(lambda before=before, job=job: warehouse.batches() > before, job, 400)  # type: ignore[misc]
    for client in crowd:
        client.join()
    batches.stopped.set()
    sidecar.stop()
    feed.join()
    job.stop()
    sent = {offset: what for client in crowd for offset, what in client.sent.items()}
    assert len(sent) == each * storm.clients, f"only {len(sent)} changes were taken"
    return sent


def _tuned(warehouse: Warehouse) -> int:
    """How many turns are the job's own."""
    with closing(OpsDatabase(warehouse.ops_url)) as ops:
        return sum(turn["by"] == WHO for turn in ops.turns.of("auction"))


def _changes(chance: random.Random, count: int) -> list[tuple[str, Any]]:
    knobs = [chance.choice(list(VALUES)) for _ in range(count)]
    return [(knob, chance.choice(VALUES[knob])) for knob in knobs]


def _checked_audit(warehouse: Warehouse, sent: dict[int, tuple[str, str, Any]]) -> list[dict[str, Any]]:
    """Every turn that was sent, once, in the order of Kafka, each from what the one before it had left; those
    of autotune stand between them."""
    steps = steps_of(load(warehouse.pipeline, {"ENDMARK_RELATION_URL": warehouse.relation_url}))
    assert sorted(knobs_of(steps)) == sorted(VALUES)
    held = filed(steps)
    with closing(OpsDatabase(warehouse.ops_url)) as ops:
        turns = list(ops.turns.of("auction"))
    offsets = [turn["offset"] for turn in turns]
    assert offsets == sorted(set(offsets))
    assert [turn["offset"] for turn in turns if turn["by"] != WHO] == sorted(sent)
    batches = [turn["batch_id"] for turn in turns]
    assert batches == sorted(batches)
    for turn in turns:
        by, name, value = sent.get(turn["offset"], (WHO, turn["name"], turn["value"]))
        assert (turn["by"], turn["name"], turn["refused"]) == (by, name, None)
        assert (turn["before"], turn["value"]) == (held[name], turned(steps, name, value)), turn
        held[name] = turn["value"]
    return turns


def _said(turn: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a turn that no cut of batches may change."""
    return {name: told for name, told in turn.items() if name != "batch_id"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for part in fields(Storm):
        default = random.randrange(1 << 30) if part.name == "seed" else part.default
        parser.add_argument(f"--{part.name}", type=type(part.default), default=default)
    storm = Storm(**vars(parser.parse_args()))
    print(f"repeat with: --seed={storm.seed}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps(weathered(storm, Path(directory))))


if __name__ == "__main__":
    main()
