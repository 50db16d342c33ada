"""The broker of docker-compose.yml: each part has the rights that the docs list, and nobody else has any."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import (
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePatternFilter,
    ResourceType,
)
from kafka.errors import KafkaError

from endmark.driver.topics import partition_counts
from endmark.errors import ConfigError
from endmark.kafka.cluster import KafkaCluster, Tls, cluster_of
from endmark.kafka.sending import send
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION
from endmark.wire.control import Turn
from endmark_feed.auction_feed import FeedOptions, run_feed
from support.composed_broker import ComposedBroker, make_secrets
from support.secured_broker import Certificates, rights_of

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).parents[2]
INIT = runpy.run_path(str(ROOT / "infra/kafka/init.py"))
STREAMS, CONTROL = INIT["STREAMS"], INIT["CONTROL"]
TURN = Turn("batch.records", 1000, "Ann").written()
PARTS = {"feed": "producer", "job": "job", "operator": "operator"}


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_secrets(tmp_path_factory.mktemp("compose"))


@pytest.fixture(scope="module")
def broker(secrets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposedBroker]:
    with ComposedBroker(tmp_path_factory.mktemp("broker"), secrets) as running:
        running.init()
        yield running


def admin_of(broker: ComposedBroker, secrets: Path) -> KafkaAdminClient:
    files = {"ssl_cafile": str(secrets / "kafka_ca"), "ssl_certfile": str(secrets / "kafka_admin")}
    return KafkaAdminClient(bootstrap_servers=broker.with_certificate, security_protocol="SSL", **files)


def test_topics_are_those_of_the_shipped_pipeline_and_its_feed() -> None:
    spec = load(AUCTION, {"ENDMARK_RELATION_URL": "sqlite://"})
    assert sorted(stream.topic for stream in spec.streams.values()) == sorted(STREAMS)
    assert spec.control_topic == CONTROL
    partitions = FeedOptions().partitions
    assert INIT["PARTITIONS"] == {"items": partitions.items, "bids": partitions.bids, CONTROL: 1}


def test_rights_are_those_that_the_docs_list(broker: ComposedBroker, secrets: Path) -> None:
    """The sidecar also writes dead letters to their streams again. No right is on anything but a topic."""
    listed = {
        (f"User:{user}", operation, topic)
        for user, part in PARTS.items()
        for operation, _, topic in rights_of(part, STREAMS, (CONTROL,), ())
    }
    listed |= {("User:operator", ACLOperation.WRITE, topic) for topic in STREAMS}
    anything = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
    everything = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, anything)
    with closing(admin_of(broker, secrets)) as admin:
        found, _ = admin.describe_acls(everything)
    assert {(each.principal, each.operation, each.resource_pattern.resource_name) for each in found} == listed
    assert all(each.resource_pattern.resource_type is ResourceType.TOPIC for each in found)


def test_the_feed_publishes_but_turns_no_knob(broker: ComposedBroker) -> None:
    feed = broker.cluster("feed")
    done = run_feed(FeedOptions(minutes=0.02, rate=100, sellers=10), feed)
    assert done.items > 0
    with pytest.raises(ConfigError, match=r"refuses a request of feed \(TopicAuthorizationFailedError\)"):
        send(feed, CONTROL, TURN)
    with closing(KafkaConsumer(**cluster_of(broker.cluster("job")).python())) as consumer:
        [end] = consumer.end_offsets([TopicPartition(CONTROL, 0)]).values()
    assert end == 0
    send(broker.cluster("operator"), CONTROL, TURN)


def test_nobody_does_anything_without_a_login(broker: ComposedBroker, secrets: Path) -> None:
    """Neither in the clear, nor over TLS, nor with a certificate that another authority has signed."""
    for address in (broker.bootstrap, broker.with_login, broker.with_certificate):
        with pytest.raises(KafkaError):
            KafkaProducer(bootstrap_servers=address, bootstrap_timeout_ms=3000)
    ca = Tls(secrets / "kafka_ca")
    for address in (broker.with_login, broker.with_certificate):
        with pytest.raises(KafkaError):
            KafkaProducer(**cluster_of(KafkaCluster(address, ca)).python(), bootstrap_timeout_ms=3000)
    stranger = Certificates(secrets.parent / "stranger").make()
    forged = Tls(secrets / "kafka_ca", stranger.path("job.pem"), stranger.path("job.key"))
    with pytest.raises(ConfigError, match="certificate unknown"):
        partition_counts(KafkaCluster(broker.with_certificate, forged), [CONTROL])


def test_a_new_password_counts_from_the_next_start(broker: ComposedBroker, secrets: Path) -> None:
    """`make-secrets.sh` makes another password, and `init` sets it, since it runs at each start."""
    before = broker.cluster("job")
    file = (secrets / "kafka_job").resolve()
    file.write_text("0" * 48)
    broker.kill()
    broker.start()
    broker.init()
    assert partition_counts(broker.cluster("job"), [CONTROL]) == {CONTROL: 1}
    with pytest.raises(ConfigError, match="refuses the login of job"):
        partition_counts(before, [CONTROL])
