"""Another user of the machine attacks a job with the default master while it runs."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import pytest
from kafka import KafkaProducer
from py4j import java_gateway, protocol
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JJavaError

from endmark.embedded.broker import Broker
from endmark.embedded.java import find_java
from endmark.embedded.ports import LOOPBACK
from endmark.embedded.process import ManagedProcess
from endmark_feed.auction_feed import FeedOptions
from endmark_feed.producer import create_topics
from support.processes import Listener, descendants, listeners, open_files
from support.warehouse import Warehouse, wait_for

ROOT = Path(__file__).parents[2]
NOBODY = 65534
PARTITIONS = {"items": 1, "bids": 1, "auction-control": 1}


@dataclass
class Running:
    """A job that has written a batch."""

    warehouse: Warehouse
    process: ManagedProcess
    bids: int = 0

    def bid(self) -> None:
        """Let a batch with one more bid be written."""
        before, self.bids = self.warehouse.batches(), self.bids + 1
        bid = {"bid_id": self.bids, "item_id": 1, "seller_id": 1, "bidder_id": 1, "price": 2.0}
        with_time = bid | {"bid_at": "2026-01-01T00:00:01Z"}
        producer = KafkaProducer(bootstrap_servers=self.warehouse.broker.bootstrap)
        producer.send("bids", json.dumps(with_time).encode(), partition=0)
        producer.close()
        wait_for(lambda: self.warehouse.batches() > before, self.process)

    @property
    def listeners(self) -> list[Listener]:
        return listeners(descendants(self.process.pid))


@pytest.fixture(scope="module")
def job(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("neighbours")
    create_topics(broker.bootstrap, PARTITIONS)
    relation = f"sqlite:///{directory / 'relation.db'}"
    warehouse = Warehouse(directory, broker, relation, FeedOptions(seed=5, sellers=20))
    with warehouse.start_job() as process:
        wait_for(lambda: b"running" in process.log.read_bytes(), process)
        running = Running(warehouse, process)
        running.bid()
        yield running
        running.bid()  # it goes on after all that was done to it
        process.stop()
        assert warehouse.verify().ok


@pytest.fixture
def stranger(monkeypatch: pytest.MonkeyPatch) -> Iterator[JavaGateway]:
    """A JVM with Spark's classes and without a secret. It is of another user if we may start one.

    A Spark session of an earlier test in this process has replaced Py4J's function that raises errors. That
    one asks the session's JVM to describe them, which has none of this JVM's.
    """
    monkeypatch.setattr(java_gateway, "get_return_value", protocol.get_return_value)
    jars = Path(pyspark.__file__).with_name("jars")
    readable = all(each.stat().st_mode & stat.S_IXOTH for each in (jars, *jars.parents))
    nobody = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 and readable else {}
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.nio", "sun.nio.ch")]
    command = [
        str(find_java()),
        *opened,
        "-cp",
        f"{jars}/*",
        "py4j.GatewayServer",
        "--die-on-broken-pipe",
        "0",
    ]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd="/",
        text=True,
        **nobody,  # type: ignore[call-overload]
    ) as java:
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=int(java.stdout.readline())))
        yield gateway
        gateway.close()
        java.terminate()


def opened_blocks(stranger: JavaGateway, port: int) -> str:
    """Ask a block manager for a block of the driver, and return its answer."""
    spark = stranger.jvm.org.apache.spark
    nothing = stranger.jvm.scala.Option.empty()
    network = _module(spark.network.netty, "SparkTransportConf").fromSparkConf(
        _conf(stranger), "shuffle", 1, nothing, nothing
    )
    handler = spark.network.server.NoOpRpcHandler()
    blocks = stranger.new_array(stranger.jvm.java.lang.String, 1)
    blocks[0] = "broadcast_0_piece0"
    asked = spark.network.shuffle.protocol.OpenBlocks("stranger", "driver", blocks)
    try:
        client = (
            spark.network.TransportContext(network, handler)
            .createClientFactory()
            .createClient(LOOPBACK, port)
        )
        client.sendRpcSync(asked.toByteBuffer(), 10_000)
    except Py4JJavaError as error:
        return str(error.java_exception)
    return "done"


def stopped_block_managers(stranger: JavaGateway, port: int) -> str:
    """Tell the driver to stop its block managers, which would end the run, and return its answer."""
    spark, conf = stranger.jvm.org.apache.spark, _conf(stranger)
    secret_file = _module(spark.internal.config, "package").AUTH_SECRET_FILE()
    security = spark.SecurityManager(conf, stranger.jvm.scala.Option.empty(), secret_file)
    rpc = spark.rpc.RpcEnv.create("stranger", LOOPBACK, 0, conf, security, True)
    stop = _module(spark.storage, "BlockManagerMessages$StopBlockManagerMaster")
    try:
        master = rpc.setupEndpointRef(spark.rpc.RpcAddress(LOOPBACK, port), "BlockManagerMaster")
        master.askSync(stop, stranger.jvm.scala.reflect.ClassTag.Any())
    except Py4JJavaError as error:
        return str(error.java_exception)
    finally:
        rpc.shutdown()
    return "done"


def _conf(stranger: JavaGateway) -> Any:
    conf = stranger.jvm.org.apache.spark.SparkConf(False)
    for name, value in {"app.id": "stranger", "rpc.askTimeout": "10s", "rpc.lookupTimeout": "10s"}.items():
        conf.set(f"spark.{name}", value)
    return conf


def _module(package: Any, name: str) -> Any:
    """A Scala object."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def test_all_listen_on_loopback(job: Running) -> None:
    found = job.listeners

    assert len({listener.port for listener in found}) >= 4  # of RPC, blocks, Py4J and its callbacks
    assert [each for each in found if each.address not in ("127.0.0.1", "::ffff:127.0.0.1", "::1")] == []


def test_spark_obeys_nobody_without_its_secret(job: Running, stranger: JavaGateway) -> None:
    """Neither its RPC nor its block manager. The secret is on no command line."""
    ports = [each.port for each in job.listeners]
    answers = {f"blocks of {port}": opened_blocks(stranger, port) for port in ports}
    answers |= {f"stop of {port}": stopped_block_managers(stranger, port) for port in ports}

    assert [name for name, answer in answers.items() if answer == "done"] == [], answers
    told = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in descendants(job.process.pid)]
    for asked in (b"spark.authenticate=true", b"spark.network.crypto.enabled=true"):
        assert any(asked in line for line in told), asked
    assert [line for line in told if b"authenticate.secret" in line] == []
    job.bid()


def test_python_is_called_back_by_its_own_java_alone(job: Running) -> None:
    """Who asks for a method of the job's objects without the gateway's token is hung up on."""
    answers = {}
    for listener in job.listeners:
        with socket.create_connection((LOOPBACK, listener.port), timeout=10) as asking:
            asking.settimeout(5)
            try:
                asking.sendall(b"c\np0\n__repr__\ne\n")
                answers[listener.port] = asking.recv(200)
            except (TimeoutError, ConnectionError):
                answers[listener.port] = b""

    assert {port: answer for port, answer in answers.items() if answer.startswith(b"!y")} == {}
    job.bid()


def test_sockets_of_workers_are_behind_a_private_directory(job: Running) -> None:
    found = [Path(path) for each in open_files(descendants(job.process.pid)) if (path := each.socket)]

    assert found
    assert {file.parent: stat.S_IMODE(file.parent.stat().st_mode) for file in found} == {
        file.parent: 0o700 for file in found
    }
    assert {file.parent.parent for file in found} == {Path(tempfile.gettempdir())}


def test_nobody_else_can_read_what_a_job_writes(job: Running) -> None:
    """Tables, checkpoint, the ops database, and what is open below the directory for temporary files.

    The tree itself is ours to show, and a clean clone of it may lie in that directory.
    """
    base = job.warehouse.directory
    written = [base / "warehouse", base / "checkpoint", *base.glob("ops.db*")]
    kept = [file for each in list(written) for file in each.rglob("*")]
    temporary = [Path(each.path) for each in open_files(descendants(job.process.pid)) if each.path]
    below = [
        file
        for file in temporary
        if file.is_relative_to(tempfile.gettempdir()) and file.exists()
        if not file.is_relative_to(base) and not file.is_relative_to(ROOT)
    ]
    open_to_others = [str(file) for file in [*written, *kept, *below] if file.lstat().st_mode & 0o077]

    assert len(kept) > 20
    assert open_to_others == []
