"""Three Kafka brokers that replicate all topics and ask for a login over TLS, as processes on loopback."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Self

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ACLOperation, ResourceType

from endmark.embedded.ports import LOOPBACK, free_port
from support.secured_broker import Certificates, SecuredBroker

NODES = 3
_MOVED_SECONDS = 60.0
_CLUSTER_ID = "ZW5kbWFyay1vZi10ZXN0cw"
# The last value of a setting counts, so these take the place of those of a single broker.
_SETTINGS = """
node.id={number}
controller.quorum.voters={voters}
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
share.coordinator.state.topic.replication.factor=3
share.coordinator.state.topic.min.isr=2
"""


class _Node(SecuredBroker):
    """One of the brokers, which is a controller, too.

    Args:
        directory: the directory of its topics.
        certificates: the certificates of all brokers, who share the name `localhost`.
        number: its id, from 1 on.
        controllers: the ports of the controllers, in the order of their ids.
    """

    def __init__(
        self, directory: Path, certificates: Certificates, number: int, controllers: list[int]
    ) -> None:
        super().__init__(directory, certificates, {})
        self._number = number
        self._controllers = controllers

    @property
    def _cluster_id(self) -> str:
        return _CLUSTER_ID

    def _write_settings(self) -> Path:
        path = super()._write_settings()
        own = f"CONTROLLER://{LOOPBACK}:{self._controllers[self._number - 1]}"
        text = re.sub(r"CONTROLLER://[^:]+:\d+", own, path.read_text())
        voters = ",".join(f"{at}@{LOOPBACK}:{port}" for at, port in enumerate(self._controllers, 1))
        path.write_text(text + _SETTINGS.format(number=self._number, voters=voters))
        return path


class BrokerCluster:
    """A cluster of three brokers. A record is acknowledged once two of them have it.

    Attributes:
        nodes: the brokers, by their ids less one.

    Args:
        directory: an empty directory, for topics.
        certificates: the certificates of all brokers.
    """

    def __init__(self, directory: Path, certificates: Certificates) -> None:
        controllers = [free_port() for _ in range(NODES)]
        self.nodes = [
            _Node(directory / f"broker-{number}", certificates, number, controllers)
            for number in range(1, NODES + 1)
        ]
        self._threads = ThreadPoolExecutor(NODES)

    def __enter__(self) -> Self:
        # A broker answers once it knows a majority of controllers. Linux ends a broker with the thread that
        # has started it, so these threads stay.
        for started in [self._threads.submit(node.start) for node in self.nodes]:
            started.result()
        return self

    def __exit__(self, *_error: object) -> None:
        for node in self.nodes:
            node.kill()
        self._threads.shutdown()

    @property
    def bootstrap(self) -> str:
        """The addresses without a login, by which a test may do everything."""
        return ",".join(node.bootstrap for node in self.nodes)

    @property
    def with_login(self) -> str:
        """The addresses that ask for a login over TLS."""
        return ",".join(node.with_login for node in self.nodes)

    def add_user(
        self, user: str, password: str, rights: Iterable[tuple[ACLOperation, ResourceType, str]]
    ) -> None:
        """Add a user of both SCRAM mechanisms with rights."""
        self.nodes[0].add_user(user, password)
        self.nodes[0].allow(user, rights)

    def make_topics(self, partitions: dict[str, int]) -> None:
        """Make topics with three replicas."""
        made = {
            name: {"num_partitions": count, "replication_factor": NODES} for name, count in partitions.items()
        }
        with closing(KafkaAdminClient(bootstrap_servers=self.bootstrap)) as admin:
            admin.create_topics(made, wait_for_metadata=True)

    def leader(self, topic: str, partition: int) -> SecuredBroker:
        """Return the broker that leads a partition."""
        return self.nodes[self._leader(topic, partition) - 1]

    def move(self, topic: str, partition: int) -> None:
        """Take a partition from the broker that leads it; the other two keep it, and one of them leads it."""
        led = self._leader(topic, partition)
        others = [number for number in range(1, NODES + 1) if number != led]
        moved = TopicPartition(topic, partition)
        with closing(KafkaAdminClient(bootstrap_servers=self.bootstrap)) as admin:
            assert admin.alter_partition_reassignments({moved: others}) == {moved: None}
            until = time.monotonic() + _MOVED_SECONDS
            while admin.list_partition_reassignments([moved]) or self._leader(topic, partition) == led:
                assert time.monotonic() < until, f"{topic}/{partition} is still at broker {led}"
                time.sleep(0.2)

    def _leader(self, topic: str, partition: int) -> int:
        with closing(KafkaAdminClient(bootstrap_servers=self.bootstrap)) as admin:
            [described] = admin.describe_topics([topic])
        found: dict[int, int] = {
            each["partition_index"]: each["leader_id"] for each in described["partitions"]
        }
        return found[partition]
