"""Faults of the servers: broker, database and sidecar are killed, hang, lock, or have no room."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from random import Random

import httpx
import pymysql
import sqlalchemy as sa
from kafka import KafkaAdminClient, TopicPartition

from endmark_feed.message import BIDS
from processes.fault import Fault, Job, Marker
from processes.rig import Rig
from support.ops_sidecar import Sidecar
from support.relation_outages import resume, stall

_BROKER, _DATABASE, _SIDECAR = (frozenset({part}) for part in ("broker", "database", "sidecar"))
_WAITS = "for the database"  # in the line of a task that waits for it
_TOO_MANY = 1040
_SAID_SECONDS = 10.0  # from the end of an outage until a busy task has said that it waited
_NOTICED_SECONDS = 180.0
_MORE_ROWS = 10_000_000  # ids of sellers from here on occur in no record


@contextmanager
def _broker_killed(rig: Rig, _chance: Random, marker: Marker) -> Iterator[None]:
    rig.broker.kill()
    with _no_acknowledgement(rig, marker):
        yield
        marker.landed = not rig.broker.running
    rig.broker.start()


@contextmanager
def _broker_stalled(rig: Rig, _chance: Random, marker: Marker) -> Iterator[None]:
    pid = rig.broker.pid
    assert pid is not None
    stall(pid)
    try:
        with _no_acknowledgement(rig, marker):
            yield
            marker.landed = rig.broker.running
    finally:
        resume(pid)


@contextmanager
def _no_acknowledgement(rig: Rig, marker: Marker) -> Iterator[None]:
    """Require that the broker takes no record while the body runs, but for what was under way."""
    time.sleep(0.5)
    before, batches = rig.feed.acknowledgements, rig.batches()
    yield
    marker.seen |= {"acknowledged": rig.feed.acknowledgements - before, "batches": rig.batches() - batches}
    marker.landed &= rig.feed.acknowledgements == before


@contextmanager
def _waiting(rig: Rig, marker: Marker) -> Iterator[None]:
    """Around a fault of the database, at which the job must wait for it, as its log tells."""
    log, start = rig.job.log, rig.job.log.stat().st_size
    yield

    def said() -> list[str]:
        with log.open("rb") as lines:
            lines.seek(start)
            found = lines.read().decode(errors="replace").splitlines()
        return [line[:160] for line in found if _WAITS in line]

    marker.landed = rig.wait(lambda: bool(said()), _SAID_SECONDS)
    marker.seen["waited"] = said()[:2]


@contextmanager
def _database_killed(rig: Rig, _chance: Random, marker: Marker) -> Iterator[None]:
    with _waiting(rig, marker):
        rig.database.kill()
        yield
        rig.database.start()


@contextmanager
def _database_stalled(rig: Rig, _chance: Random, marker: Marker) -> Iterator[None]:
    pid = rig.database.pid
    assert pid is not None
    with _waiting(rig, marker):
        stall(pid)
        try:
            yield
        finally:
            resume(pid)
        # A read that hangs gives up after a fifth of the deadline, and only then says that it waits.


@contextmanager
def _locked(rig: Rig, _chance: Random, marker: Marker) -> Iterator[None]:
    with _waiting(rig, marker), rig.engine.connect() as other:
        other.execute(sa.text("LOCK TABLES sellers WRITE"))
        yield
        other.execute(sa.text("UNLOCK TABLES"))


@contextmanager
def _no_connection(rig: Rig, _chance: Random, marker: Marker) -> Iterator[None]:
    """Take all connections of the server, and end those of the job."""
    with _waiting(rig, marker), ExitStack() as held:
        first = held.enter_context(_connected(rig))
        while True:
            _take_all(rig, held)
            if not _end_connections(first):
                break
        yield


def _connected(rig: Rig) -> pymysql.Connection[pymysql.cursors.Cursor]:
    url = sa.make_url(rig.database.url)
    return pymysql.connect(host=url.host, port=url.port or 0, user=url.username, password=url.password or "")


def _take_all(rig: Rig, held: ExitStack) -> None:
    try:
        while True:
            held.enter_context(_connected(rig))
    except pymysql.err.OperationalError as error:
        if error.args[0] != _TOO_MANY:
            raise


def _end_connections(by: pymysql.Connection[pymysql.cursors.Cursor]) -> int:
    """End the connections that use a database, which are the job's; return their number."""
    with by.cursor() as cursor:
        cursor.execute("SELECT id FROM information_schema.processlist WHERE db IS NOT NULL")
        found = cursor.fetchall()
        for (number,) in found:
            with suppress(pymysql.err.Error):  # it may have ended by itself
                cursor.execute("KILL %s", [number])
    return len(found)


@contextmanager
def _relation_altered(rig: Rig, _chance: Random, marker: Marker) -> Iterator[None]:
    """Add and remove rows that no record asks for, while the job reads."""
    more = "REPLACE INTO sellers SELECT seller_id + :more, name, country, rating FROM sellers"
    fewer = "DELETE FROM sellers WHERE seller_id >= :more"
    with _in_turns(rig, marker, [more, fewer]):
        yield


@contextmanager
def _relation_rebuilt(rig: Rig, _chance: Random, marker: Marker) -> Iterator[None]:
    """Add and remove a column, each time by a new copy of the table, while the job reads."""
    add, drop = "ADD COLUMN note VARCHAR(9) NOT NULL DEFAULT 'none' FIRST", "DROP COLUMN note"
    with _in_turns(rig, marker, [f"ALTER TABLE sellers {change}, ALGORITHM=COPY" for change in (add, drop)]):
        yield


@contextmanager
def _in_turns(rig: Rig, marker: Marker, statements: list[str]) -> Iterator[None]:
    """Run statements on the relation round by round, each in a transaction of its own."""
    stopped, rounds = threading.Event(), [0]

    def run() -> None:
        while not stopped.wait(0.2):
            for statement in statements:
                with rig.engine.begin() as connection:
                    more = {"more": _MORE_ROWS} if ":more" in statement else {}
                    connection.execute(sa.text(statement), more)
            rounds[0] += 1

    altering = threading.Thread(target=run)
    altering.start()
    before = rig.batches()
    try:
        yield
    finally:
        stopped.set()
        altering.join()
    marker.seen |= {"rounds": rounds[0], "batches": rig.batches() - before}
    marker.landed = rounds[0] > 0


@contextmanager
def _partition_added(rig: Rig, _chance: Random, marker: Marker) -> Iterator[None]:
    """Add a partition to a topic, and a record to the partition, which stops the query once."""
    admin = KafkaAdminClient(bootstrap_servers=rig.broker.bootstrap)
    try:
        count = len(admin.describe_topics([BIDS])[0]["partitions"])
        admin.create_partitions({BIDS: count + 1})
    finally:
        admin.close()
    assert rig.wait(lambda: count in rig.feed.partitions(BIDS), 30), "the feed does not see the partition"
    ends = len(rig.ends)
    rig.feed.send_to(BIDS, count, b"not JSON")
    assert rig.wait(lambda: len(rig.ends) > ends, _NOTICED_SECONDS), "the job does not notice the partition"
    marker.seen |= {"partition": count, "error": rig.ends[-1].error[:200]}
    marker.landed = f"topic {BIDS} has got partition {count}" in rig.ends[-1].error
    yield


@contextmanager
def _topic_recreated(rig: Rig, _chance: Random, marker: Marker) -> Iterator[None]:
    rig.feed.pause()
    admin = KafkaAdminClient(bootstrap_servers=rig.broker.bootstrap)
    try:
        admin.delete_topics([BIDS])
        assert rig.wait(lambda: BIDS not in admin.list_topics(), 30), "the topic is still there"
        admin.create_topics({BIDS: {"num_partitions": 2, "replication_factor": 1}}, wait_for_metadata=True)
    finally:
        admin.close()
    marker.landed = True
    yield


@contextmanager
def _retention_overtakes(rig: Rig, _chance: Random, marker: Marker) -> Iterator[None]:
    """Remove records that the job has not read, as a retention that is too short does."""
    with rig.unattended():
        rig.job.kill()
        rig.stay(2)
        rig.feed.pause()
        ends = {place: end for place, end in rig.feed.ends().items() if place.topic == BIDS}
        admin = KafkaAdminClient(bootstrap_servers=rig.broker.bootstrap)
        try:
            admin.delete_records({TopicPartition(*place): end for place, end in ends.items()})
        finally:
            admin.close()
        marker.seen["unread"] = not rig.has_read(ends)
        marker.landed = marker.seen["unread"]
        rig.start_job()
    yield


@contextmanager
def _sidecar(rig: Rig) -> Iterator[Sidecar]:
    sidecar = Sidecar(rig.warehouse.ops_url, log=rig.directory / "sidecar.log")
    sidecar.start()
    try:
        yield sidecar
    finally:
        with suppress(ProcessLookupError):
            os.kill(sidecar.pid, signal.SIGCONT)
        sidecar.stop()


@contextmanager
def _sidecar_killed(rig: Rig, _chance: Random, marker: Marker) -> Iterator[None]:
    with _sidecar(rig) as sidecar:
        assert httpx.get(f"{sidecar.url}metrics", timeout=30).status_code == 200
        os.kill(sidecar.pid, signal.SIGKILL)
        time.sleep(0.5)
        with suppress(httpx.HTTPError):
            httpx.get(f"{sidecar.url}metrics", timeout=2)
            raise AssertionError("a killed sidecar answers")
        marker.landed = True
        yield


@contextmanager
def _sidecar_stalled(rig: Rig, _chance: Random, marker: Marker) -> Iterator[None]:
    with _sidecar(rig) as sidecar:
        os.kill(sidecar.pid, signal.SIGSTOP)
        try:
            httpx.get(f"{sidecar.url}metrics", timeout=1)
        except httpx.TimeoutException:
            marker.landed = True
        yield


@contextmanager
def _sidecar_asked(rig: Rig, _chance: Random, marker: Marker) -> Iterator[None]:
    """Ask the sidecar 200 times a second."""
    stopped, answers = threading.Event(), [0]

    def ask(url: str) -> None:
        with httpx.Client(timeout=30) as client:
            while not stopped.wait(0.04):
                answers[0] += client.get(f"{url}api/pipelines/{rig.warehouse.name}/status").status_code == 200

    with _sidecar(rig) as sidecar:
        askers = [threading.Thread(target=ask, args=[sidecar.url]) for _ in range(8)]
        for asker in askers:
            asker.start()
        began = time.monotonic()
        yield
        seconds = time.monotonic() - began
        stopped.set()
        for asker in askers:
            asker.join()
        marker.seen["answers a second"] = round(answers[0] / seconds)
        marker.landed = answers[0] > 0


FAULTS = {
    "broker killed": Fault(
        "F5",
        "the broker is killed and away for 5 s while the feed runs",
        _broker_killed,
        Job.STAYS,
        (5, 5),
        parts=_BROKER,
    ),
    "broker long away": Fault(
        "F5",
        "the broker is killed and away for 40 s",
        _broker_killed,
        Job.MAY_END,
        (40, 40),
        parts=_BROKER,
        weight=0.3,
    ),
    "broker stalled": Fault(
        "F5", "the broker hangs for 8 to 15 s", _broker_stalled, Job.MAY_END, (8, 15), parts=_BROKER
    ),
    "partition added": Fault(
        "F6",
        "a topic gets a partition with a record",
        _partition_added,
        Job.ENDS,
        # Keys of the auction may be final before the partition is there, which `verify` does not know.
        pipelines=("running_groups",),
        parts=_BROKER | {"driver"},
        weight=0,
    ),
    "topic made anew": Fault(
        "F6",
        "a topic is deleted and made anew, with fewer records than were read",
        _topic_recreated,
        Job.ENDS,
        refused="bids",
        parts=_BROKER,
        weight=0,
    ),
    "retention overtakes": Fault(
        "F6",
        "records that no job has read are removed",
        _retention_overtakes,
        Job.ENDS,
        refused="bids",
        parts=_BROKER,
        weight=0,
    ),
    "database killed": Fault(
        "F7", "the database is killed and away for 5 s", _database_killed, seconds=(5, 5), parts=_DATABASE
    ),
    "database long away": Fault(
        "F7",
        "the database is killed and away for 30 s",
        _database_killed,
        seconds=(30, 30),
        parts=_DATABASE,
        weight=0.3,
    ),
    "database stalled": Fault(
        "F7", "the database hangs for 15 to 20 s", _database_stalled, seconds=(15, 20), parts=_DATABASE
    ),
    "table locked": Fault(
        "F7", "the master table is locked for 15 to 20 s", _locked, seconds=(15, 20), parts=_DATABASE
    ),
    "no connection left": Fault(
        "F7",
        "the job's connections end, and the database has no others for 5 s",
        _no_connection,
        seconds=(5, 5),
        parts=_DATABASE,
    ),
    "relation altered": Fault(
        "F7",
        "rows of the relation that no record asks for come and go",
        _relation_altered,
        seconds=(5, 10),
        parts=_DATABASE,
    ),
    "relation rebuilt": Fault(
        "F7",
        "a column of the relation comes and goes, each time with a new copy of the table",
        _relation_rebuilt,
        seconds=(5, 10),
        parts=_DATABASE,
    ),
    "sidecar killed": Fault("F17", "the sidecar is killed", _sidecar_killed, seconds=(3, 3), parts=_SIDECAR),
    "sidecar stalled": Fault("F17", "the sidecar hangs", _sidecar_stalled, seconds=(5, 5), parts=_SIDECAR),
    "sidecar asked": Fault(
        "F17", "the sidecar is asked 200 times a second", _sidecar_asked, seconds=(8, 8), parts=_SIDECAR
    ),
}
