"""The records that a job sends to published topics, and their comparison with a recomputation."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from endmark.engine import channels
from endmark.pipeline import Pipeline
from endmark.verify.compare.published_topics import check_topics, compare_topics, load_published
from endmark.verify.read.added_columns import AddedColumns
from endmark.verify.read.consume import Range
from endmark.verify.session import Session
from support.verify_world import Record


def sent_records(pipeline: Pipeline, batches: Iterable[Mapping[str, list[dict[str, Any]]]]) -> list[Record]:
    """The records that batches of a job send to its topics of one partition. Every other batch is sent twice.

    Args:
        pipeline: the pipeline.
        batches: the rows that each batch adds to tables, by channel.
    """
    found = []
    for number, tables in enumerate(batches):
        for role, topic in pipeline.outputs.topics.items():
            columns = list(pipeline.outputs.topic_columns(role))
            # The rows of an earlier pipeline may have fewer columns.
            rows = [{name: row[name] for name in columns if name in row} for row in tables.get(role, [])]
            values = list(map(spelled, rows))
            if role == "results":
                said = dict.fromkeys(row["punctuation"] for row in tables[channels.ANNOUNCED])
                values += [marked(text) for text in said]
            found += [sent(topic, value, number) for value in values * (1 + number % 2)]
    return found


def sent(topic: str, value: bytes | None, batch: int, partition: int = 0, key: bytes | None = b"k") -> Record:
    """A record as the job of a checkpoint sends it in a batch."""
    headers = (("endmark-checkpoint", b"mine"), ("endmark-batch", b"%d" % batch))
    return Record(topic, partition, value, key=key, headers=headers)


def marked(punctuation: str) -> bytes:
    return b'{"$punctuation": ' + punctuation.encode() + b"}"


def spelled(row: Mapping[str, Any]) -> bytes:
    return json.dumps({name: _spelled(value) for name, value in row.items()}, ensure_ascii=False).encode()


def _spelled(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case Decimal():
            return f"{value:f}"
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
        case list():
            return [_spelled(each) for each in value]
    return value


def require_published(
    session: Session,
    pipeline: Pipeline,
    ranges: Sequence[Range],
    uncompared: frozenset[str],
    added: AddedColumns,
) -> None:
    """Assert that topics have what a session has recomputed, in a right order."""
    published = load_published(session, pipeline, ranges, {}, "mine", added)
    assert [each for each in compare_topics(session, pipeline, published, uncompared) if each.differs] == []
    assert check_topics(session, pipeline, published, uncompared) == []
