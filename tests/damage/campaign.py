"""Runs jobs, damages their files, starts them again, and judges what comes of it."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa

from damage.damages import KINDS, Kind
from damage.home import PIPELINES, Home, World
from endmark.client import Delivery
from endmark.embedded.broker import Broker
from endmark.embedded.mariadb import MariaDb
from endmark.spark.processes.class_archive import local_jars
from endmark_feed.message import BIDS, ITEMS, Message
from endmark_feed.options import FeedOptions, Partitions
from endmark_feed.producer import create_topics, send
from endmark_feed.relation import seed_relation
from endmark_feed.workload import messages

NAMES = tuple(sorted(file.stem for file in PIPELINES.glob("*.yaml")))
SELLERS = 300
OFFERS = "offers"  # the topic with a copy of all bids
_MARK = "!"  # at the end of altered names, of which no other one has it


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run with a damage.

    Args:
        wrong: tells how it was not as it must be; `None` if it was.
        error: the error with which the job refused to go on; `None` if it did not.
        seconds: the length of the run.
    """

    wrong: str | None
    error: str | None
    seconds: float


@dataclass
class Bench:
    """Jobs on the records of one seed, which have read the first half of these.

    Args:
        world: the servers and the records.
        directory: an empty directory.
        relation: the engine of the database with the relation.
    """

    world: World
    directory: Path
    relation: sa.Engine
    _right: dict[str, Mapping[str, Counter[str]]] = field(default_factory=dict)

    def base(self, name: str) -> Home:
        """The files of a job on a pipeline after the first half of the records."""
        return Home(self.directory / name, self.world, name)

    def outcome(self, name: str, kind: str) -> Outcome:
        """Damage a copy of a job's files, start it again, and judge it."""
        found = KINDS[kind]
        home = self.base(name).copied(self.directory / f"{name}-{kind.replace(' ', '-')}")
        last = home.last_batch
        first_run = home.run_of(last)
        with self._altered(found.alters):
            found.do(home)
            tables = home.versions()
            began = time.monotonic()
            error = home.run(found.settings, found.buckets)
            seconds = time.monotonic() - began
        repeated = home.run_of(last) != first_run
        if found.refused is not None:
            wrong = _not_refused(found, error, tables == home.versions())
        elif error is not None:
            wrong = f"it ended: {error}"
        elif repeated != found.repeats:
            wrong = f"batch {last} was {'' if repeated else 'not '}repeated, so this is another damage"
        else:
            wrong = self._unlike(home) if found.alters else home.verdict()
        return Outcome(wrong, error, seconds)

    @contextmanager
    def _altered(self, alters: bool) -> Iterator[None]:
        """Let all rows of the relation be others for a while."""
        if not alters:
            yield
            return
        with self.relation.begin() as connection:
            connection.execute(sa.text(f"UPDATE sellers SET name = CONCAT(name, '{_MARK}')"))  # noqa: S608  # a constant
        try:
            yield
        finally:
            with self.relation.begin() as connection:
                connection.execute(sa.text(f"UPDATE sellers SET name = TRIM(TRAILING '{_MARK}' FROM name)"))  # noqa: S608

    def _unlike(self, home: Home) -> str | None:
        """Compare the tables with those of an undamaged job, but for the altered column."""
        if home.name not in self._right:
            right = self.base(home.name).copied(self.directory / f"{home.name}-right")
            assert right.run() is None
            assert right.verdict() is None
            self._right[home.name] = right.rows()
        rows = home.rows()
        for table, expected in self._right[home.name].items():
            found = Counter(row.replace(_MARK, "") for row in rows[table].elements())
            if found != expected:
                return f"{table} lacks {len(expected - found)} rows, and has {len(found - expected)} too many"
        return None


def _not_refused(kind: Kind, error: str | None, is_same: bool) -> str | None:
    """Tell how a job did not refuse as it must; `None` if it did."""
    if error is None:
        return "it went on"
    if re.search(kind.refused or "", error) is None:
        return f"its error is another one: {error}"
    return None if is_same else "it refused, but its tables are others than before"


@contextmanager
def benches(directory: Path, seeds: range) -> Iterator[Iterator[tuple[int, Bench]]]:
    """Start the servers; yield a bench for each seed, one after the other."""
    with ExitStack() as parts:
        broker = parts.enter_context(Broker(directory / "broker", say=print))
        database = parts.enter_context(MariaDb(directory / "mariadb"))
        engine = sa.create_engine(database.url)
        parts.callback(engine.dispose)
        seed_relation(database.url, SELLERS, 1)
        jars = local_jars(print)

        def each() -> Iterator[tuple[int, Bench]]:
            for seed in seeds:
                topics = {name: f"{name}-{seed}" for name in (ITEMS, BIDS, OFFERS)}
                world = World(broker.bootstrap, {"ENDMARK_RELATION_URL": database.url}, topics, jars)
                yield seed, _prepared(Bench(world, directory / f"seed-{seed}", engine), seed)

        yield each()


def _prepared(bench: Bench, seed: int) -> Bench:
    """Publish records, and let a job on each pipeline read the first half of them."""
    feed = FeedOptions(
        seed=seed,
        minutes=0.5,
        rate=50,
        sellers=SELLERS,
        open_items=60,
        bad_rate=0.01,
        partitions=Partitions(items=1, bids=2),
    )
    every = [
        message._replace(topic=bench.world.topics[topic])
        for message in messages(feed)
        for topic in ([ITEMS] if message.topic == ITEMS else [BIDS, OFFERS])
    ]
    partitions = {ITEMS: feed.partitions.items, BIDS: feed.partitions.bids, OFFERS: feed.partitions.bids}
    create_topics(
        bench.world.bootstrap, {bench.world.topics[name]: number for name, number in partitions.items()}
    )
    half = len(every) // 2
    _publish(bench.world.bootstrap, every[:half])
    bench.directory.mkdir()
    for name in NAMES:
        error = bench.base(name).run()
        assert error is None, error
        assert bench.base(name).last_batch > 1
    _publish(bench.world.bootstrap, every[half:])
    return bench


def _publish(bootstrap: str, records: list[Message]) -> None:
    with Delivery(bootstrap) as delivery:
        send(delivery, records)
