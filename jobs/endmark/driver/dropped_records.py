"""Finds records that Kafka dropped before a batch read them, and lets a job go on without them if it may.

An unfinished batch is planned but not committed, and the next start repeats it. If some of its records are in
a gap, the repeated batch has only the others. That is right while nobody has the batch: tables, topics and
state then never see the records of the gap. If a table or a topic has the batch, it has rows that the state
will never know, and the other tables would not have the batch's other rows. So such a gap is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.driver import checkpoint as checkpoints
from endmark.driver.planned_batches import committed_ends, newest, planned_ends
from endmark.errors import ConfigError
from endmark.kafka.gaps import dropped, past

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from endmark.kafka.cluster import ClusterOrAddress
    from endmark.kafka.gaps import Gap
    from endmark.kafka.offsets import Offsets
    from endmark.storage import Location

_NAMED = 8
_NEW_CHECKPOINT = "begin a new checkpoint by `endmark migrate FILE --accept-loss`"


def new_gaps(checkpoint: Location, held: Offsets) -> list[Gap]:
    """Return the offsets that no committed batch has read or skipped, and that Kafka does not hold.

    Args:
        checkpoint: the directory of the checkpoint, which is locked.
        held: the first offsets that Kafka holds, by topic and partition.
    """
    begins = committed_ends(checkpoint / "spark") or checkpoints.start_offsets(checkpoint)
    return dropped(past(begins, checkpoints.gaps(checkpoint)), held)


def refusal(found: Sequence[Gap], kafka: ClusterOrAddress) -> ConfigError:
    """Return the error of a start that may not skip records.

    Args:
        found: the new gaps.
        kafka: the Kafka cluster, or the addresses of its brokers.
    """
    return ConfigError(
        f"Kafka at {kafka} has dropped records that no batch has read: {named(found)}. Let the topic keep "
        "records for longer (retention.ms). To go on without these records, start the job once by "
        f"`endmark run FILE --skip-dropped-records`; or {_NEW_CHECKPOINT}"
    )


def require_repeatable(
    checkpoint: Location,
    found: Sequence[Gap],
    written: Mapping[str, int | None],
    published: Callable[[int], Collection[str]],
) -> None:
    """Refuse to skip records of an unfinished batch that somebody may have already.

    Args:
        checkpoint: the directory of the checkpoint, which is locked.
        found: the new gaps.
        written: the newest batch of each table; `None` if it has none.
        published: returns the output topics that have or may have a batch, given its number.

    Raises:
        ConfigError: a gap has records of a planned batch, and a table has this batch, or a topic may have it.
    """
    spark = checkpoint / "spark"
    batch = newest(spark / "offsets")
    if batch is None or batch == newest(spark / "commits"):
        return
    ends = planned_ends(spark)
    torn = [gap for gap in found if gap.first < ends.get(gap.topic, {}).get(str(gap.partition), 0)]
    if not torn:
        return
    tables = sorted(name for name, last in written.items() if last is not None and last >= batch)
    topics = [] if tables else sorted(published(batch))
    if not tables and not topics:
        return
    who = f"table {', '.join(tables)} has" if tables else f"topic {', '.join(topics)} has or may have"
    raise ConfigError(
        f"batch {batch} was not finished, and Kafka has dropped records of it: {named(torn)}. Its repetition "
        f"would lack these records, but {who} the batch already, so tables and state would contradict each "
        f"other; {_NEW_CHECKPOINT}"
    )


def named(found: Sequence[Gap]) -> str:
    """Return the first gaps in words, and the number of the others."""
    more = [f"{len(found) - _NAMED} more ranges"] if len(found) > _NAMED else []
    return ", ".join([*map(str, found[:_NAMED]), *more])
