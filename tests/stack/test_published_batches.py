"""The last records of a published topic say whether it has a batch."""

from __future__ import annotations

from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

from endmark.driver.published_topics import topics_with
from endmark.embedded.broker import Broker
from endmark.kafka.offsets import TopicEnds
from endmark.pipeline.publish import BATCH_HEADER, CHECKPOINT_HEADER
from endmark_feed.producer import create_topics


def sent(broker: Broker, topic: str, partition: int, batch: int, app_id: str = "app") -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    headers = [(CHECKPOINT_HEADER, app_id.encode()), (BATCH_HEADER, str(batch).encode())]
    producer.send(topic, b"{}", partition=partition, headers=headers)
    producer.close()


def having(broker: Broker, topic: str, batch: int) -> bool:
    """Ask of a topic and an empty one beside it, which has no batch."""
    ends = TopicEnds(broker.bootstrap, [topic, "batches-none"])
    found = topics_with(broker.bootstrap, ends.ends(), "app", batch)
    ends.close()
    assert found in ([], [topic])
    return bool(found)


def test_a_topic_has_a_batch_if_one_of_its_partitions_has_it(broker: Broker) -> None:
    """Batches before it do not count, and later ones do."""
    create_topics(broker.bootstrap, {"batches": 2, "batches-none": 1})
    assert not having(broker, "batches", 0)
    for partition, batch in ((0, 3), (1, 4), (0, 5)):
        sent(broker, "batches", partition, batch)

    assert [having(broker, "batches", batch) for batch in (4, 5, 6)] == [True, True, False]


def test_a_topic_may_have_a_batch_if_its_last_record_does_not_tell(broker: Broker) -> None:
    """The record may be of somebody else, or gone."""
    create_topics(broker.bootstrap, {"batches-foreign": 1, "batches-gone": 1, "batches-none": 1})
    sent(broker, "batches-foreign", 0, 3)
    sent(broker, "batches-gone", 0, 3)
    assert not having(broker, "batches-foreign", 4)
    assert not having(broker, "batches-gone", 4)

    sent(broker, "batches-foreign", 0, 3, app_id="another")
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.delete_records({TopicPartition("batches-gone", 0): 1})
    admin.close()

    assert having(broker, "batches-foreign", 4)
    assert having(broker, "batches-gone", 4)
