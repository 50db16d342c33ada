"""A broker that asks for TLS and a login, and gives each part the rights of docs/secured-kafka.md alone."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from deltalake import DeltaTable
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

from endmark.client.producer import StreamProducer
from endmark.driver.topics import partition_counts
from endmark.embedded.process import ManagedProcess
from endmark.errors import ConfigError
from endmark.kafka.cluster import KafkaCluster, Login, Tls, cluster_of
from endmark.kafka.sending import send
from endmark.punctuation.pattern import Equals
from endmark.wire.control import Turn
from support.identity_provider import SCOPE, IdentityProvider
from support.ops_tokens import WRITER
from support.secured_broker import Certificates, SecuredBroker, rights_of

pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).parents[2]
PASSWORDS = {user: f'pass\\word-"of"-{user}-4711' for user in ("producer", "job", "operator")}
TOPICS = {"orders": 2, "payments": 2, "paid": 1, "shop-control": 1}
COLUMNS = {"order_id": "long", "amount": "decimal(18,2)", "at": "timestamp"}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates")).make()


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IdentityProvider]:
    with IdentityProvider(tmp_path_factory.mktemp("identities"), {"job": PASSWORDS["job"]}) as running:
        yield running


@pytest.fixture(scope="module")
def broker(
    certificates: Certificates, provider: IdentityProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredBroker]:
    plain = {"plain": "plain-4711"}
    with SecuredBroker(tmp_path_factory.mktemp("broker"), certificates, plain, provider.keys) as running:
        for part, password in PASSWORDS.items():
            running.add_user(part, password)
            running.allow(part, rights_of(part, ("orders", "payments"), ("shop-control",), ("paid",)))
        with closing(KafkaAdminClient(bootstrap_servers=running.bootstrap)) as admin:
            made = {
                name: {"num_partitions": count, "replication_factor": 1} for name, count in TOPICS.items()
            }
            admin.create_topics(made)
        yield running


@pytest.fixture
def tls(certificates: Certificates) -> Tls:
    return Tls(certificates.path("ca.pem"))


def cluster(broker: SecuredBroker, tls: Tls, user: str, mechanism: str = "SCRAM-SHA-512") -> KafkaCluster:
    return KafkaCluster(broker.with_login, tls, Login(mechanism, user, PASSWORDS[user]))


def section(user: str, certificates: Certificates, broker: SecuredBroker) -> dict[str, object]:
    return {
        "bootstrap": broker.with_login,
        "tls": {"ca": str(certificates.path("ca.pem"))},
        "sasl": {"user": user, "password": "${KAFKA_PASSWORD}"},
    }


def test_a_job_reads_writes_publishes_and_is_verified(
    broker: SecuredBroker, certificates: Certificates, provider: IdentityProvider, tls: Tls, tmp_path: Path
) -> None:
    """The job logs in by a password first, and by tokens when it goes on."""
    produce(cluster(broker, tls, "producer"), range(20))
    login = section("job", certificates, broker)
    file = pipeline_file(tmp_path, login)
    for part, password in PASSWORDS.items():
        (tmp_path / part).write_text(password + "\n")
    (tmp_path / "operator.yaml").write_text(json.dumps({"kafka": section("operator", certificates, broker)}))

    job = run(tmp_path, "job", "run", str(file), f"--warehouse={tmp_path / 'warehouse'}", "--buckets=2")
    try:
        wait_for_rows(tmp_path / "warehouse" / "by_order", 20, job)
        assert not any(password in line for password in PASSWORDS.values() for line in command_lines())
        operate(tmp_path, file)
    finally:
        job.stop()

    produce(cluster(broker, tls, "producer"), range(20, 30))
    tokens = {"mechanism": "OAUTHBEARER", "token_url": provider.token_url, "scope": SCOPE}
    pipeline_file(tmp_path, login | {"sasl": {"user": "job", "password": "${KAFKA_PASSWORD}"} | tokens})
    warehouse = f"--warehouse={tmp_path / 'warehouse'}"
    run(tmp_path, "job", "run", str(file), warehouse, "--buckets=2", "--available-now").wait_done(240)
    assert provider.given >= 3  # one for each of our clients
    verified = run(tmp_path, "job", "verify", str(file), f"--warehouse={tmp_path / 'warehouse'}")
    verified.wait_done(120)
    with closing(KafkaConsumer(bootstrap_servers=broker.bootstrap)) as consumer:
        [published] = consumer.end_offsets([TopicPartition("paid", 0)]).values()
    assert published >= 30
    leaks = [path for path in tmp_path.rglob("*") if path.is_file() and leaks_in(path, tmp_path)]
    assert leaks == []


def produce(kafka: KafkaCluster, orders: range) -> None:
    """Send orders, each with a payment, and close them."""
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    for topic in ("orders", "payments"):
        with StreamProducer(kafka, topic, COLUMNS, key="order_id") as producer:
            for order in orders:
                producer.send({"order_id": order, "amount": Decimal("1.50"), "at": at})
                producer.punctuate({"order_id": Equals(order)})


def pipeline_file(folder: Path, kafka: dict[str, object]) -> Path:
    stream = {"columns": COLUMNS, "event_time": {"column": "at", "ahead": None}, "punctuated_on": "order_id"}
    declared = {
        "name": "shop",
        "kafka": kafka,
        "streams": {name: {"topic": name, **stream} for name in ("orders", "payments")},
        "steps": {
            "paid": {"join": ["orders", "payments"], "on": "order_id"},
            "by_order": {"from": "paid", "aggregate": {"by": "order_id", "measures": {"rows": "count"}}},
        },
        "tables": {"paid": {}, "by_order": {}},
        "publish": {"paid": {"topic": "paid"}},
        "batch": {"every": "1s"},
    }
    file = folder / "shop.yaml"
    file.write_text(json.dumps(declared))
    return file


def run(folder: Path, part: str, command: str, *arguments: str) -> ManagedProcess:
    """Start a command of the command line as a user of Kafka."""
    program = [sys.executable, "-m", "endmark.cli", command, *arguments]
    if command != "verify":
        program.append(f"--ops-url=sqlite:///{folder / 'ops.db'}")
    if command == "run":
        program.append(f"--checkpoint={folder / 'checkpoint'}")
    environment = ["env", f"KAFKA_PASSWORD_FILE={folder / part}", f"ENDMARK_OPS_TOKENS=ann:write:{WRITER}"]
    log = folder / f"{command}-{len(list(folder.glob('*.log')))}.log"
    return ManagedProcess(command, [*environment, *program], log, stop_seconds=90)


def wait_for_rows(table: Path, rows: int, job: ManagedProcess) -> None:
    until = time.monotonic() + 240
    while not DeltaTable.is_deltatable(str(table)) or DeltaTable(table).count() < rows:
        assert job.running, job.log.read_text()
        assert time.monotonic() < until, job.log.read_text()
        time.sleep(0.5)


def operate(folder: Path, file: Path) -> None:
    """Ask for the lag with the rights of an operator, and why a key is open."""
    said, until = "", time.monotonic() + 60
    while "behind: 0 records" not in said:  # the table is written a moment before the batch is reported
        assert time.monotonic() < until, said
        status = run(folder, "operator", "status", "shop", f"--kafka={folder / 'operator.yaml'}")
        status.wait_done(60)
        said = status.log.read_text()
    # The file has the job's login, so this is done with the job's rights.
    why = run(folder, "job", "why", str(file), "order_id=7")
    why.wait_done(60)
    assert "order_id=7 is final" in why.log.read_text()


def command_lines() -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found.append((process / "cmdline").read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return found


def leaks_in(path: Path, folder: Path) -> bool:
    if path.parent == folder and path.name in PASSWORDS:
        return False
    data = path.read_bytes()
    return any(b"word-" in data and f"{user}-4711".encode() in data for user in PASSWORDS)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_mechanisms_of_kafka_python(broker: SecuredBroker, tls: Tls, mechanism: str) -> None:
    assert partition_counts(cluster(broker, tls, "job", mechanism), ["orders"]) == {"orders": 2}


def test_plain_and_a_certificate_log_in_too(
    broker: SecuredBroker, tls: Tls, certificates: Certificates
) -> None:
    plain = KafkaCluster(broker.with_login, tls, Login("PLAIN", "plain", "plain-4711"))
    pair = Tls(certificates.path("ca.pem"), certificates.path("job.pem"), certificates.path("job.key"))
    for kafka in (plain, KafkaCluster(broker.with_certificate, pair)):
        with closing(KafkaConsumer(**cluster_of(kafka).python(), bootstrap_timeout_ms=10_000)) as consumer:
            assert consumer.topics() == set()  # they have no rights


def test_each_refusal_names_its_cause(
    broker: SecuredBroker, tls: Tls, certificates: Certificates, provider: IdentityProvider
) -> None:
    def asked(kafka: KafkaCluster) -> str:
        with pytest.raises(ConfigError) as refused:
            partition_counts(kafka, ["orders"])
        return str(refused.value)

    wrong = KafkaCluster(broker.with_login, tls, Login("SCRAM-SHA-512", "job", "wrong"))
    assert "refuses the login of job by SCRAM-SHA-512: Authentication failed" in asked(wrong)
    unknown = Login("OAUTHBEARER", "nobody", "wrong", provider.token_url, SCOPE)
    assert "refuses a token for nobody: 401" in asked(KafkaCluster(broker.with_login, tls, unknown))
    job = cluster(broker, tls, "job")
    stranger = KafkaCluster(job.bootstrap, Tls(), job.login)
    assert "unable to get local issuer certificate; kafka.tls.ca must" in asked(stranger)
    elsewhere = KafkaCluster(job.bootstrap.replace("localhost", "127.0.0.1"), tls, job.login)
    assert "certificate is not valid for '127.0.0.1'" in asked(elsewhere)
    assert "bad certificate; " in asked(KafkaCluster(broker.with_certificate, tls))
    missing = KafkaCluster(job.bootstrap, Tls(certificates.path("nowhere.pem")), job.login)
    assert "kafka.tls: " in asked(missing)
    with pytest.raises(ConfigError, match=r"refuses a request of producer \(TopicAuthorizationFailedError\)"):
        send(cluster(broker, tls, "producer"), "shop-control", Turn("x", 1, "Ann").written())


def test_an_expired_certificate_is_named(tmp_path: Path) -> None:
    expired = Certificates(tmp_path / "certificates").make(days=-1)
    with SecuredBroker(tmp_path / "broker", expired, {}) as broker:
        kafka = KafkaCluster(broker.with_login, Tls(expired.path("ca.pem")), Login("PLAIN", "ann", "x"))
        with pytest.raises(ConfigError, match="certificate has expired"):
            partition_counts(kafka, ["orders"])
