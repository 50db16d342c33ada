"""The auction where everything asks for a login, on a Spark standalone cluster: `make test-connect`.

Three brokers replicate the topics, over TLS and with rights for each part. Records are Avro with schemas in
a registry. Tables and checkpoint are in S3, the relation is in MariaDB, and the two workers share no volume.
While records come, the leader of a partition, a worker, the registry, the store and the driver are killed in
turn. A partition moves to other brokers, and the way to the store is cut.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import sqlalchemy as sa

from cluster.packaged_job import SECONDS, arguments, moves_on, records_read
from cluster.pages import linked_pages, sidecar_pages
from cluster.standalone import PackagedCluster
from endmark.client import Delivery
from endmark.embedded.mariadb import MariaDb
from endmark.embedded.process import ManagedProcess
from endmark.kafka.cluster import KafkaCluster, Login, Tls
from endmark.pipelines import AUCTION
from endmark.storage import StoreUrl
from endmark_feed.auction_feed import FeedOptions
from endmark_feed.message import BIDS, ITEMS
from endmark_feed.producer import when_due
from endmark_feed.workload import messages
from support.avro_messages import AvroMessages
from support.broker_cluster import BrokerCluster
from support.faults import Faults, step
from support.ops_sidecar import Sidecar
from support.registry_server import RegistryServer
from support.relation_outages import resume, stall
from support.s3_server import S3Server
from support.secured_broker import Certificates, rights_of
from support.warehouse import Warehouse, wait_for

_CONTROL = "auction-control"
_CUT_SECONDS = 20
_SMALL_BATCHES = "--set=batch.records=4000"


class Surroundings:
    """All servers around a job, with users and rights.

    Args:
        directory: an empty directory.
        feed: the options of the feed.
        stack: ends the servers.
    """

    def __init__(self, directory: Path, feed: FeedOptions, stack: ExitStack) -> None:
        certificates = Certificates(directory / "certificates").make()
        self.passwords = {part: secrets.token_urlsafe(24) for part in ("producer", "job")}
        self.brokers = stack.enter_context(BrokerCluster(directory, certificates))
        self.registry = stack.enter_context(RegistryServer(directory / "registry"))
        self.store = stack.enter_context(S3Server(directory / "s3"))
        database = stack.enter_context(MariaDb(directory / "mariadb"))
        password = sa.make_url(database.url).password
        assert password, "the relation has no password"
        self._relation_password = password
        self.brokers.make_topics({ITEMS: feed.partitions.items, BIDS: feed.partitions.bids, _CONTROL: 1})
        for part, password in self.passwords.items():
            self.brokers.add_user(part, password, rights_of(part, (ITEMS, BIDS), (_CONTROL,), ()))
        tls = Tls(certificates.path("ca.pem"))
        login = Login("SCRAM-SHA-512", "producer", self.passwords["producer"])
        self.producer = KafkaCluster(self.brokers.with_login, tls, login)
        os.environ |= self.store.environment() | {
            "KAFKA_PASSWORD": self.passwords["job"],
            "ENDMARK_RELATION_URL": database.url,
        }
        bucket = StoreUrl(self.store.make_bucket("shop"))
        self.warehouse = Warehouse(
            directory,
            self.brokers.nodes[0],
            database.url,
            feed,
            self._pipeline(directory / "auction.yaml", certificates),
            tables=bucket / "tables",
            checkpoint=bucket / "checkpoint",
        )
        self.registered = AvroMessages(self.registry)

    @property
    def secrets(self) -> list[str]:
        """The passwords that nobody may find."""
        return [*self.passwords.values(), self.store.secret, self._relation_password]

    def _pipeline(self, file: Path, certificates: Certificates) -> Path:
        """Write the shipped pipeline with a login, a registry and streams of Avro."""
        kafka = {
            "bootstrap": self.brokers.with_login,
            "tls": {"ca": str(certificates.path("ca.pem"))},
            "sasl": {"mechanism": "SCRAM-SHA-512", "user": "job", "password": "${KAFKA_PASSWORD}"},
        }
        registry = {"url": self.registry.url, "retry": "10s"}
        sections = f"kafka: {json.dumps(kafka)}\nregistry: {json.dumps(registry)}\n"
        streams = re.sub(
            r"^    topic: .*$", r"\g<0>\n    format: avro", AUCTION.read_text(), flags=re.MULTILINE
        )
        file.write_text(sections + streams)
        return file

    def feed(self) -> None:
        """Publish the whole workload in real time, in Avro."""
        started = time.monotonic()
        with Delivery(self.producer) as delivery:
            for chunk in when_due(messages(self.warehouse.feed_options), lambda: time.monotonic() - started):
                for message in chunk:
                    value = self.registered.encoded(message)
                    delivery.send(message.topic, message.partition, message.key, value)


def test_every_part_killed(cluster: PackagedCluster, around: Surroundings, faults: Faults) -> None:
    warehouse = around.warehouse
    feed = threading.Thread(target=around.feed, daemon=True)
    feed.start()
    first, _ = cluster.start_worker(), cluster.start_worker()
    place = around.brokers.with_login, warehouse.tables, warehouse.checkpoint, warehouse.ops_url
    job = cluster.submit(*arguments(*place, _SMALL_BATCHES, pipeline=warehouse.pipeline))
    with step("first batches"):
        wait_for(lambda: warehouse.batches() > 1, job, SECONDS)
    require_none_shown(around.secrets)
    require_no_page(cluster, warehouse, around.secrets)
    require_no_secrets(warehouse.directory, around.secrets)

    survive_brokers(around, job, faults)
    seen = "Spark repeats its tasks on the other executor, which reads their state from the store."
    with faults.survived("one of two workers, with its executor", seen):
        first.kill()
        moves_on(warehouse, job)
    cluster.start_worker()
    seen = "Executors go on with the schemas that they know."
    with faults.survived("the registry", seen):
        around.registry.kill()
        moves_on(warehouse, job)
    around.registry.start()
    around.registered = AvroMessages(around.registry)
    survive_store(around, job, faults)
    job.kill()
    read = records_read(warehouse)
    feed.join()
    with faults.survived("the driver") as fault:
        job = cluster.submit(*arguments(*place, "--available-now", pipeline=warehouse.pipeline))
        job.wait_done(SECONDS)
    left = records_read(warehouse) - read
    assert left > 0, "nothing was left to read when the driver was killed"
    fault.seen = (
        "Another waits until that one counts as dead, goes on from the checkpoint, and reads the "
        f"{left:,.0f} records that are left."
    )

    report = warehouse.verify()
    assert report.ok, report.to_json()
    rows = sum(table.actual for table in report.tables)
    assert rows > 10_000
    print(f"{rows} rows as recomputed", flush=True)
    require_no_secrets(warehouse.directory, around.secrets)
    faults.keep()


def survive_brokers(around: Surroundings, job: ManagedProcess, faults: Faults) -> None:
    """Kill the broker that leads a partition; then move the partition to the other brokers."""
    leader = around.brokers.leader(BIDS, 0)
    seen = "Another broker leads its partitions. Feed and job go on there."
    with faults.survived("the broker that leads a partition", seen):
        leader.kill()
        moves_on(around.warehouse, job)
    leader.start()
    with faults.survived("a partition from the broker that leads it", seen):
        around.brokers.move(BIDS, 0)
        moves_on(around.warehouse, job)


def survive_store(around: Surroundings, job: ManagedProcess, faults: Faults) -> None:
    """Kill the object store; then let it answer nothing for a while."""
    with faults.survived("the object store", "Clients try again until it is back."):
        around.store.kill()
        around.store.start()
        moves_on(around.warehouse, job)
    seen = f"It answers nothing for {_CUT_SECONDS} s. Requests wait, or time out and are sent again."
    with faults.survived("the way to the object store", seen):
        assert around.store.pid is not None
        stall(around.store.pid)
        time.sleep(_CUT_SECONDS)
        resume(around.store.pid)
        moves_on(around.warehouse, job)


def require_none_shown(passwords: list[str]) -> None:
    """No command line of any process has a password, of which all users of the machine see the list."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            command = (process / "cmdline").read_bytes()
            assert not any(password.encode() in command for password in passwords), command


def require_no_page(cluster: PackagedCluster, warehouse: Warehouse, passwords: list[str]) -> None:
    """No page of Spark's or of the sidecar has a password."""
    sidecar = Sidecar(warehouse.ops_url, reach={"warehouse": str(warehouse.tables)})
    sidecar.start()
    try:
        pages = linked_pages(f"{cluster.page}/") | sidecar_pages(sidecar.url, warehouse.name)
    finally:
        sidecar.stop()
    read = "\n".join(sorted(pages))
    for part in ("/app/?appId=", "/logPage/?", "/status", "/dead-letters", "/metrics"):
        assert part in read, f"no page of {part} was read, but these were:\n{read}"
    for address, text in pages.items():
        assert not any(password in text for password in passwords), address
    print(f"{len(pages)} pages have no password", flush=True)


def require_no_secrets(directory: Path, passwords: list[str]) -> None:
    """No file of the job, of Spark or of the store has a password, temporary ones included.

    The servers' own settings do not count.
    """
    own = ("broker-", "certificates", "s3/s3proxy.conf")
    for file in directory.rglob("*"):
        name = str(file.relative_to(directory))
        if name.startswith(own) or not file.is_file():
            continue
        with suppress(FileNotFoundError):  # a temporary file has gone meanwhile
            text = file.read_bytes()
            assert not any(password.encode() in text for password in passwords), file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", type=Path, help="what infra/package.sh has made")
    package: Path = parser.parse_args().package
    feed = FeedOptions(seed=4, minutes=4.0, rate=500, sellers=5_000, bad_rate=0.002)
    with tempfile.TemporaryDirectory(prefix="endmark-connect-") as scratch, ExitStack() as stack:
        directory = Path(scratch)
        around = Surroundings(directory, feed, stack)
        faults = Faults("connected_faults")
        cluster = stack.enter_context(PackagedCluster(directory, package.resolve()))
        test_every_part_killed(cluster, around, faults)
    print("the cluster is as it should be")


if __name__ == "__main__":
    main()
