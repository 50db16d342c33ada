"""Faults around a job: its links to the servers, full disks, much data, and records that are wrong."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import sqlalchemy as sa
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from endmark.kafka.sending import send
from endmark.wire.control import Turn
from endmark_feed.message import BIDS, ITEMS, punctuation
from processes.fault import Fault, Inject, Job, Marker
from processes.feed import MAX_RECORD, PARTITIONS
from processes.link import DEADLOCK, HARMS, Link
from processes.rig import Rig
from simulation.noise import NOISE

_BROKER, _DATABASE, _DISK, _INPUT, _KNOBS = (
    frozenset({part}) for part in ("broker", "database", "disk", "input", "knobs")
)
_SHARES = (0.5, 0.5, 0.5, 1.0)  # of the replies, for each of the harms
_FRESH = 1_000_000_000  # ids of items from here on are ours, and not the feed's
_SKEWED = 3_000
_BLOCK = b"\0" * (1 << 16)
_FULL = "No space left", "no space left", "os error 28"
_ENDS_SECONDS = 120.0


def _harmed(of: Callable[[Rig], Link], harm: str, share: float) -> Inject:
    @contextmanager
    def inject(rig: Rig, _chance: Random, marker: Marker) -> Iterator[None]:
        link = of(rig)
        before = link.harmed
        with link.harming(harm, share):
            yield
        marker.seen["replies"] = link.harmed - before
        marker.landed = link.harmed > before

    return inject


@contextmanager
def _filled(disk: Path, left: int) -> Iterator[None]:
    """Fill a disk but for some bytes while the body runs."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(_BLOCK)
    if left:
        os.truncate(ballast, max(0, ballast.stat().st_size - left))
    try:
        yield
    finally:
        ballast.unlink()


@contextmanager
def _job_disk_full(rig: Rig, chance: Random, marker: Marker) -> Iterator[None]:
    """Fill the disk with tables and checkpoint; the job must end, and say why."""
    left, ends = chance.randrange(0, 400_000), len(rig.ends)
    with _filled(rig.disk("job"), left):
        assert rig.wait(lambda: len(rig.ends) > ends, _ENDS_SECONDS), "the job goes on without room"
        yield
    error = rig.ends[ends].error
    marker.seen |= {"left": left, "error": error[:300], "ends": len(rig.ends) - ends}
    assert rig.ends[ends].code in {1, 2}, rig.ends[ends]
    marker.landed = any(text in error for text in _FULL)


@contextmanager
def _broker_disk_full(rig: Rig, _chance: Random, marker: Marker) -> Iterator[None]:
    """Fill the broker's disk, which ends the broker; start it again once there is room."""
    with _filled(rig.disk("broker"), 0):
        ended = rig.wait(lambda: not rig.broker.running, 30)
        before = rig.feed.acknowledgements
        yield
        # The broker's log is on the disk that is full, so it cannot tell.
        marker.seen |= {"broker ended": ended, "acknowledged": rig.feed.acknowledgements - before}
        marker.landed = rig.feed.acknowledgements == before
    if not rig.broker.running:
        rig.broker.kill()
        rig.broker.start()


@contextmanager
def _database_disk_full(rig: Rig, _chance: Random, marker: Marker) -> Iterator[None]:
    """Fill the database's disk, so that it takes no rows; lookups go on."""
    with _filled(rig.disk("database"), 0):
        try:
            with rig.engine.begin() as connection:
                connection.execute(sa.text("CREATE TABLE ballast (text LONGTEXT) ENGINE=InnoDB"))
                for _ in range(50):
                    connection.execute(sa.text("INSERT INTO ballast VALUES (REPEAT('x', 1000000))"))
        except sa.exc.DBAPIError as error:
            marker.seen["error"] = str(error.orig)[:200]
            marker.landed = True
        before = rig.batches()
        yield
        marker.seen["batches"] = rig.batches() - before
    with rig.engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE IF EXISTS ballast"))


def _item(number: int, seller: int, category: str = "art", at: str = "2026-01-01T00:00:00Z") -> bytes:
    row = {"item_id": number, "seller_id": seller, "category": category, "start_price": 1.0, "listed_at": at}
    return json.dumps(row).encode()


def _bid(number: int, item: int, at: str) -> bytes:
    row = {"bid_id": number, "item_id": item, "seller_id": 1 + number % 1000, "bidder_id": 1, "price": 2.0}
    return json.dumps(row | {"bid_at": at}).encode()


def _fresh(chance: Random) -> int:
    return _FRESH + chance.randrange(_FRESH)


def _read_since(rig: Rig, before: dict[Any, int]) -> bool:
    """Wait until the job has read all that was acknowledged by now; require that there was something."""
    time.sleep(0.5)
    ends = rig.feed.ends()
    return any(ends[place] > before.get(place, 0) for place in ends) and rig.wait(
        lambda: rig.has_read(ends), rig.patience
    )


@contextmanager
def _large_record(rig: Rig, chance: Random, marker: Marker) -> Iterator[None]:
    """Send a row of 4 MiB, and a broken record as large."""
    larger = ConfigResource(ConfigResourceType.TOPIC, BIDS, configs={"max.message.bytes": str(MAX_RECORD)})
    admin = KafkaAdminClient(bootstrap_servers=rig.broker.bootstrap)
    try:
        admin.alter_configs([larger])
    finally:
        admin.close()
    before, partition = rig.feed.ends(), chance.randrange(PARTITIONS.bids)
    row = _bid(_fresh(chance), _fresh(chance), "2026-01-01T00:00:00Z")
    rig.feed.send_to(BIDS, partition, row[:-1] + b" " * (4 << 20) + b"}", b"x" * (4 << 20))
    marker.landed = _read_since(rig, before)
    yield


@contextmanager
def _skew(rig: Rig, chance: Random, marker: Marker) -> Iterator[None]:
    """Send 3,000 bids on one item at once, which are most of the records of that time, and close it."""
    item, before = _fresh(chance), rig.feed.ends()
    at = "2027-01-01T00:00:00Z"  # no earlier than the feed's, and within a window of them
    rig.feed.send_to(ITEMS, 0, _item(item, 1, at=at))
    bids = [_bid(_fresh(chance), item, at) for _ in range(_SKEWED)]
    rig.feed.send_to(BIDS, 0, *bids, punctuation(item))
    rig.feed.send_to(ITEMS, 0, punctuation(item))
    marker.seen["rows"] = _SKEWED
    marker.landed = _read_since(rig, before)
    yield


@contextmanager
def _times(rig: Rig, chance: Random, marker: Marker) -> Iterator[None]:
    """Send rows of other ages: long ago, far ahead, in zones, at the hour that clocks repeat."""
    before, item = rig.feed.ends(), _fresh(chance)
    times = [
        "1970-01-01T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "2026-10-25T02:30:00+02:00",
    ]
    times += ["2025-12-31T22:00:00-02:00", "2026-02-30T00:00:00Z", "2025-12-29T00:00:00Z"]
    for partition in range(PARTITIONS.bids):
        bids = [_bid(_fresh(chance), item, at) for at in times if not at.startswith("2026-10")]
        rig.feed.send_to(BIDS, partition, *bids)
    marker.seen["rows"] = PARTITIONS.bids * (len(times) - 1)
    marker.landed = _read_since(rig, before)
    yield


@contextmanager
def _schema(rig: Rig, chance: Random, marker: Marker) -> Iterator[None]:
    """Send rows of other schemas: a column more, less, wider, narrower, renamed, of an unknown version."""
    before, row = rig.feed.ends(), json.loads(_bid(_fresh(chance), _fresh(chance), "2026-01-01T00:00:00Z"))
    rows: list[Any] = [row | {"colour": "red"}, row | {"price": "2.0"}, row | {"item_id": 2**70}]
    rows += [row | {"item_id": 1.5}, {name: value for name, value in row.items() if name != "price"}]
    rows += [{"bid": row, "$version": 2}, {**row, "bid_at": 1_767_225_600}, [row], None, {}]
    rig.feed.send_to(BIDS, chance.randrange(PARTITIONS.bids), *(json.dumps(each).encode() for each in rows))
    marker.seen["rows"] = len(rows)
    marker.landed = _read_since(rig, before)
    yield


# The poison kinds of the matrix, less those of other schemas.
_POISON = (
    b"", b"{", b'{"bid_id": 1, "item_id"', b"<row><bid_id>1</bid_id>", "bids größer".encode("latin-1"),
    b'{"bid_id": 1, "item_id": "a\0b"}', b"\xff\xfe\x00", b"[" * 10_000, b'{"a":' * 10_000,
    b'{"bid_id": ' + b"9" * 5_000 + b"}", b'{"bid_id": 1, "bid_id": 2}', b'"' + b"x" * 70_000 + b'"',
    b'{"$punctuation": {"item_id": {"between": {}}}}x', b'{"$punctuation": {"colour": {"equals": 1}}}',
    b"null",
)  # fmt: skip


@contextmanager
def _poison(rig: Rig, chance: Random, marker: Marker) -> Iterator[None]:
    before = rig.feed.ends()
    records = chance.sample(_POISON, len(_POISON))
    rig.feed.send_to(BIDS, chance.randrange(PARTITIONS.bids), *records)
    marker.seen["records"] = len(records)
    marker.landed = _read_since(rig, before)
    yield


def _noise(kind: str) -> Inject:
    @contextmanager
    def inject(rig: Rig, _chance: Random, marker: Marker) -> Iterator[None]:
        before = rig.feed.noise[kind]
        with rig.feed.noisy([kind]):
            yield
        rig.wait(lambda: rig.feed.noise[kind] > before, 0)
        marker.seen["records"] = rig.feed.noise[kind] - before
        marker.landed = rig.feed.noise[kind] > before

    return inject


def _turned(name: str, values: tuple[Any, ...]) -> Inject:
    @contextmanager
    def inject(rig: Rig, chance: Random, marker: Marker) -> Iterator[None]:
        """Turn a knob, and back; the job must read both turns."""
        before, topic = rig.turns().count(name), rig.warehouse.load().control_topic
        value = chance.choice(values[1:])

        def turn(to: Any) -> None:
            send(rig.broker.bootstrap, topic, Turn(name, to, "runner").written())

        turn(value)
        marker.landed = rig.wait(lambda: rig.turns().count(name) > before, rig.patience)
        marker.seen |= {"knob": name, "value": value}
        yield
        turn(values[0])

    return inject


_AUCTION = ("auction",)
FAULTS = (
    {
        f"replies: {harm}": Fault(
            "F8",
            how,
            _harmed(lambda rig: rig.database_link, harm, share),
            seconds=(8, 12) if harm != "swallow" else (15, 20),
            parts=_DATABASE,
        )
        for (harm, how), share in zip(HARMS.items(), _SHARES, strict=True)
    }
    | {
        f"broker's replies: {harm}": Fault(
            "F5",
            how,
            _harmed(lambda rig: rig.broker_link, harm, share),
            Job.MAY_END,
            seconds=(8, 12) if harm != "swallow" else (15, 20),
            parts=_BROKER,
        )
        for (harm, how), share in zip(HARMS.items(), _SHARES, strict=True)
    }
    | {
        "deadlocks": Fault(
            "F7",
            "the database answers half of the reads with the error 1213, as to the victim of a deadlock",
            _harmed(lambda rig: rig.database_link, DEADLOCK, 0.5),
            seconds=(8, 12),
            parts=_DATABASE,
        ),
    }
    | {
        "job's disk full": Fault(
            "F9",
            "the disk of tables and checkpoint has no room for 5 s or more",
            _job_disk_full,
            Job.ENDS,
            (5, 5),
            disk=True,
            parts=_DISK | {"driver"},
        ),
        "broker's disk full": Fault(
            "F9",
            "the disk of the topics has no room",
            _broker_disk_full,
            Job.MAY_END,
            (3, 3),
            disk=True,
            parts=_BROKER,
            weight=0.3,
        ),
        "database's disk full": Fault(
            "F9",
            "the disk of the relation has no room, and a client writes rows",
            _database_disk_full,
            seconds=(5, 5),
            disk=True,
            parts=_DATABASE,
        ),
        "large records": Fault(
            "F10", "a row and a broken record of 4 MiB each", _large_record, parts=_INPUT | _BROKER
        ),
        "skew": Fault("F10", "3,000 bids at once are on one item", _skew, parts=_INPUT),
        "memory short": Fault(
            "F10",
            "the knob of the join's memory is turned so that segments spill",
            _turned("steps.matched.memory", (None, "20kB", "100kB")),
            seconds=(5, 8),
            pipelines=_AUCTION,
            parts=_KNOBS | _BROKER,
        ),
        "batches small": Fault(
            "F10",
            "the knob of the batch's size is turned, which starts the query anew",
            _turned("batch.records", (2000, 150, 500, 5000)),
            seconds=(5, 8),
            parts=_KNOBS | _BROKER,
        ),
        "poison": Fault(
            "F11",
            "15 records that nobody can read, from an empty one to one that is 10,000 deep",
            _poison,
            parts=_INPUT,
        ),
        "times": Fault(
            "F14",
            "rows of the years 1, 1970 and 9999, in other zones, on days that are none",
            _times,
            parts=_INPUT,
        ),
        "schema": Fault(
            "F15", "rows with a column more, less, renamed, of another type or version", _schema, parts=_INPUT
        ),
    }
    | {
        kind: Fault(
            "F13" if "promise" in kind else "F11" if "broken" in kind else "F12",
            how,
            _noise(kind),
            seconds=(6, 8),
            parts=_INPUT,
        )
        for kind, (_, how) in NOISE.items()
    }
)
