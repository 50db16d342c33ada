"""The whole pipeline over TLS with a login, in Avro, and with its tables and checkpoint in S3.

Each is beside the same job on JSON without a login, with tables on a disk. All servers are on this machine.
So their own work, such as that of the S3 server, is part of the cost.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

from endmark.pipelines import AUCTION
from endmark.spark.processes.class_archive import local_jars
from endmark_benchmarks.contenders.job import Job
from endmark_benchmarks.harness.contest import require_known
from endmark_benchmarks.harness.job_contest import Contender, JobContest, Run, costs, ours, run_job
from endmark_benchmarks.workloads.auction import SETTINGS, recorded, workload
from endmark_benchmarks.workloads.measured import Measured
from endmark_benchmarks.workloads.recorded import Recorded, Servers, running
from endmark_feed.message import BIDS, ITEMS, Message
from endmark_feed.options import FeedOptions
from support.avro_messages import AvroMessages
from support.registry_server import RegistryServer
from support.s3_server import S3Server
from support.secured_broker import Certificates, SecuredBroker, rights_of

RESULTS = Path(__file__).parents[2] / "results" / "connections.json"
PLAIN, TLS, AVRO, S3 = "endmark", "tls-and-login", "avro", "s3"
CONTENDERS = (PLAIN, TLS, AVRO, S3)
_AVRO_TOPICS = {ITEMS: f"{ITEMS}-avro", BIDS: f"{BIDS}-avro"}
_USER, _CONTROL = "job", "auction-control"


@dataclass(frozen=True)
class _Around:
    """The servers of all contenders.

    Args:
        servers: the broker without a login, and the database.
        broker: the same broker, which asks for a login at another port.
        ca: the file of the certificate by which its own one is signed.
        registry: has the schemas of the topics of Avro.
        store: an S3 server without any bucket.
    """

    servers: Servers
    broker: SecuredBroker
    ca: Path
    registry: RegistryServer
    store: S3Server


@contextmanager
def _running(directory: Path, feed: FeedOptions, say: Callable[[str], None]) -> Iterator[_Around]:
    """Start the servers on recorded input, which has each record as JSON and as Avro."""
    password = secrets.token_urlsafe(24)
    with tempfile.TemporaryDirectory(prefix="endmark-bench-") as scratch, ExitStack() as parts:
        certificates = Certificates(Path(scratch) / "certificates").make()
        registry = parts.enter_context(RegistryServer(Path(scratch) / "registry"))
        store = parts.enter_context(S3Server(Path(scratch) / "s3"))
        recording = _recording(directory, feed, AvroMessages(registry))
        broker = SecuredBroker(recording.directory / "broker", certificates, {_USER: password})
        servers = parts.enter_context(running(recording, say, broker))
        broker.allow(_USER, rights_of("job", (ITEMS, BIDS), (_CONTROL,), ()))
        os.environ |= store.environment() | {"KAFKA_PASSWORD": password}
        yield _Around(servers, broker, certificates.path("ca.pem"), registry, store)


def _recording(directory: Path, feed: FeedOptions, avro: AvroMessages) -> Recorded:
    """Return the recording of an auction in JSON and in Avro."""
    plain = recorded(directory, feed)

    def both() -> Iterator[Message]:
        for message in plain.messages():
            yield message
            # This feed has no tombstones, whose value would be `None`.
            value = avro.encoded(message) or b""
            yield message._replace(topic=_AVRO_TOPICS[message.topic], value=value)

    partitions = {
        **plain.partitions,
        **{_AVRO_TOPICS[name]: count for name, count in plain.partitions.items()},
    }
    place = plain.directory.with_name(f"{plain.directory.name}-connections")
    return replace(plain, directory=place, partitions=partitions, messages=both)


def _contenders(around: _Around, batch_records: int) -> dict[str, Contender]:
    """Return all contenders by name, the plain one first."""
    secured = ours(_auction(_with_login(around)), batch_records)

    def over_tls(servers: Servers, directory: Path) -> Run:
        return secured(replace(servers, bootstrap=around.broker.with_login), directory)

    def in_s3(servers: Servers, directory: Path) -> Run:
        name = directory.name.replace("_", "x")  # no bucket of a checkpoint may have an underscore
        bucket = around.store.make_bucket(name)
        job = Job(directory, servers, _auction(), bucket)
        found = run_job(job, batch_records)
        # The tables are read from the server's own files, where the contest looks for those of a disk.
        shutil.move(around.store.objects / name / "warehouse", directory / "warehouse")
        shutil.rmtree(around.store.objects / name)
        return found

    return {
        PLAIN: ours(_auction(), batch_records),
        TLS: over_tls,
        AVRO: ours(_auction(_in_avro(around.registry)), batch_records),
        S3: in_s3,
    }


def _auction(more: dict[str, Any] | None = None) -> Measured:
    """Return the shipped pipeline with the settings of all measurements, and further ones."""
    assigned = [f"{field}={json.dumps(value)}" for field, value in (more or {}).items()]
    return Measured(AUCTION, (*SETTINGS, *assigned))


def _with_login(around: _Around) -> dict[str, Any]:
    return {
        "kafka.bootstrap": around.broker.with_login,
        "kafka.tls.ca": str(around.ca),
        "kafka.sasl": {"mechanism": "PLAIN", "user": _USER, "password": "${KAFKA_PASSWORD}"},
    }


def _in_avro(registry: RegistryServer) -> dict[str, Any]:
    of_streams = {
        f"streams.{topic}.{field}": value
        for topic, other in _AVRO_TOPICS.items()
        for field, value in (("topic", other), ("format", "avro"))
    }
    return {"registry.url": registry.url, **of_streams}


def measure(
    records: int = 1_500_000,
    batch_records: int = 150_000,
    sellers: int = 500_000,
    rate: float = 20_000.0,
    repeats: int = 3,
    contender: list[str] | None = None,
    recordings: Path = Path("var/bench"),
    results: Path = RESULTS,
) -> None:
    """Run all contenders in turn, and write what they reached.

    Args:
        records: records of both topics.
        batch_records: records of a batch.
        sellers: rows of R.
        rate: records for each second of event time.
        repeats: runs of each contender.
        contender: one to run beside plain JSON on a disk; repeat for more.
        recordings: the directory of recorded input.
        results: the file to write.

    Raises:
        EndmarkError: a part is missing, a job failed, or they gave different tables.
    """
    require_known("contender", contender or (), CONTENDERS)

    def say(text: str) -> None:
        print(text, flush=True)

    local_jars(say)
    feed = workload(records / rate, rate, sellers)
    with _running(recordings, feed, say) as around:
        every = _contenders(around, batch_records)
        options = {
            "records": records,
            "batch_records": batch_records,
            "sellers": sellers,
            "rate": rate,
            "repeats": repeats,
        }
        contest = JobContest(
            "connections",
            f"auction, batches of {batch_records:,} records",
            options,
            lambda _: nullcontext(around.servers),
            {name: every[name] for name in CONTENDERS if name in (PLAIN, *(contender or CONTENDERS))},
            _auction(),
            repeats,
        )
        report, samples = contest.run(say)
    report["seconds"] = {name: costs(found) for name, found in samples.items()}
    results.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(measure)
