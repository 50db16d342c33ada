"""A producer of one stream. It checks rows and punctuations, so that none becomes a dead letter."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Self, cast

from endmark.client.delivery import DEADLINE_SECONDS, Delivery, key_hash
from endmark.domain import Domain, PunctuationError
from endmark.punctuation.numbers import to_numbers
from endmark.punctuation.pattern import Between, Equals, OneOf, Pattern, Value, values_of
from endmark.punctuation.punctuation import Punctuation
from endmark.punctuation.scalars import Scalar, to_scalar
from endmark.punctuation.wire_json import encode
from endmark.types import ColumnType

if TYPE_CHECKING:
    from endmark.kafka.cluster import ClusterOrAddress


class StreamProducer:
    """Writes a stream in order. Leaving the context waits until the broker has acknowledged all records.

    A punctuation is a promise for all producers of its partition. So punctuate only rows that no other
    producer sends any more.

    Args:
        bootstrap: the Kafka cluster, or the addresses of its brokers.
        topic: the stream's topic, which exists.
        columns: the types of the columns, as in the pipeline file:
            `{"item_id": "long", "price": "decimal(18,2)", "note": "string?"}`. Values of `timestamp(ms)` and
            other times as numbers are a `datetime` or a `date` all the same, and the producer writes numbers.
        key: the columns whose values decide a row's partition, by Kafka's own hash. A punctuation that names
            their values goes to that partition. Without a key, rows go to any partition and punctuations to
            all, and the stream needs `punctuation_scope: topic`.
        event_time: the column of event time, for `heartbeat`; `None` for a producer without heartbeats.
        deadline_seconds: how long the broker may leave a request unanswered.

    Raises:
        MissingPartError: the broker does not answer, or does not have the topic, until the deadline.
        ValueError: a type is unknown, a key is not a column or nullable, or `event_time` is no column of
            timestamps.
    """

    def __init__(
        self,
        bootstrap: ClusterOrAddress,
        topic: str,
        columns: Mapping[str, str],
        *,
        key: str | Sequence[str] = (),
        event_time: str | None = None,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        self._topic = topic
        self._columns = {name: ColumnType.parse(kind) for name, kind in columns.items()}
        self._required = {name for name, kind in self._columns.items() if not kind.nullable}
        self._domains = {name: kind.domain for name, kind in self._columns.items()}
        self._key = (key,) if isinstance(key, str) else tuple(key)
        if unknown := [name for name in self._key if name not in self._columns]:
            raise ValueError(
                f"key of {topic}: no column {unknown[0]!r}; there are {', '.join(self._columns)}"
            )
        if event_time is not None and self._domains.get(event_time) is not Domain.TIMESTAMP:
            raise ValueError(f"event_time of {topic}: no column {event_time!r} of timestamps; name one")
        self._event_time = event_time
        if nullable := [name for name in self._key if self._columns[name].nullable]:
            raise ValueError(
                f"key of {topic}: column {nullable[0]!r} is {self._columns[nullable[0]]}, but null has no "
                f"partition; declare it {self._columns[nullable[0]].required}"
            )
        self._delivery = Delivery(bootstrap, deadline_seconds)
        try:
            self._partitions = self._delivery.partitions(topic)
        except BaseException:
            self._delivery.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._delivery.__exit__(kind, *rest)

    def send(self, row: Mapping[str, Any]) -> None:
        """Queue a row, which a background thread sends soon. It may lack nullable columns, which are null.

        Raises:
            ValueError: the row lacks a column or has another, or a value is null or of another type.
            MissingPartError: the broker takes no records, or did not take an earlier one.
        """
        if not self._required <= row.keys() <= self._columns.keys():
            raise ValueError(
                f"a row of {self._topic} has the columns {', '.join(self._columns)}, "
                f"this has {', '.join(row)}; send exactly the declared ones"
            )
        spelled = {
            name: None if kind.nullable and row.get(name) is None else self._spelled(name, row[name])
            for name, kind in self._columns.items()
        }
        key = self._key_of([self._spelled(name, row[name]) for name in self._key]) if self._key else None
        partition = None if key is None else self._partition_of(key)
        self._delivery.send(self._topic, partition, key, _json(spelled))

    def punctuate(self, patterns: Mapping[str, Pattern]) -> None:
        """Promise that no row comes any more that matches the patterns of all these columns.

        The promise goes to every partition that may have such rows.

        Args:
            patterns: a pattern for each column that the promise is about.

        Raises:
            PunctuationError: there is no pattern, a column is not declared, or a value is not of its type.
            MissingPartError: the broker takes no records, or did not take an earlier one.
        """
        if not patterns:
            some = next(iter(self._columns))
            raise PunctuationError(f"name a column; {{{some!r}: anything()}} closes all of {self._topic}")
        promise = Punctuation.of(self._topic, patterns)
        for name, pattern in patterns.items():
            if name not in self._columns:
                raise PunctuationError(
                    f"stream {self._topic} has no column {name!r}; it has {', '.join(self._columns)}"
                )
            for value in values_of(pattern):
                self._spelled(name, value)
        spelled = {name: kind.spelled for name, kind in self._columns.items()}
        record = encode(to_numbers(promise, self._columns), spelled)
        for partition, key in self._concerned(dict(promise.patterns)):
            self._delivery.send(self._topic, partition, key, record)

    def heartbeat(self, time: datetime) -> None:
        """Promise that no row with an event time up to `time` comes any more, in any partition.

        A stream that may fall silent sends heartbeats, so that it does not hold the other stream's rows in
        state. A later row that is as old is a violation. A heartbeat that is further ahead of the clock than
        the stream's `event_time.ahead` is a dead letter.

        Args:
            time: the newest event time that is over, with a time zone.

        Raises:
            PunctuationError: `time` is no timestamp with a time zone.
            ValueError: the producer was made without `event_time`.
            MissingPartError: the broker takes no records, or did not take an earlier one.
        """
        if self._event_time is None:
            raise ValueError(
                f"the producer of {self._topic} has no `event_time`; name its column of event time"
            )
        spelling = self._columns[self._event_time].spelling
        if spelling:  # no row has a time in between
            time = cast("datetime", spelling.floor(Domain.TIMESTAMP.coerce(time)))
        self._spelled(self._event_time, time)  # without a time, it would rule out all times
        self.punctuate({self._event_time: Between(high=time)})

    def flush(self) -> None:
        """Wait until the broker has acknowledged all records.

        Raises:
            MissingPartError: the broker has not taken a record.
        """
        self._delivery.flush()

    def _concerned(self, patterns: Mapping[str, Pattern]) -> Iterable[tuple[int, bytes | None]]:
        """Return the partitions that may have matching rows, each with a key of that partition, or `None`."""
        match [patterns.get(name) for name in self._key]:
            case [OneOf(values)]:
                named = [[value] for value in values]
            case [_, *_] as key if all(isinstance(pattern, Equals) for pattern in key):
                named = [[value for pattern in key for value in values_of(pattern)]]  # type: ignore[arg-type]
            case _:
                return [(partition, None) for partition in self._partitions]
        keys = [
            self._key_of([self._spelled(name, value) for name, value in zip(self._key, values, strict=True)])
            for values in named
        ]
        return {self._partition_of(key): key for key in keys}.items()

    def _partition_of(self, key: bytes) -> int:
        return self._partitions[key_hash(key) % len(self._partitions)]

    def _key_of(self, values: Sequence[Scalar]) -> bytes:
        """Return a record's key: the text of a single value, or a JSON object of several values."""
        if len(values) > 1:
            return _json(dict(zip(self._key, values, strict=True)))
        return values[0].encode() if isinstance(values[0], str) else _json(values[0])

    def _spelled(self, name: str, value: Value | None) -> Scalar:
        kind, domain = self._columns[name], self._domains[name]
        if not domain.holds(value):
            raise PunctuationError(f"column {name!r} of {self._topic} is {kind}, which {value!r} is not")
        try:
            exact = domain.coerce(value)  # type: ignore[arg-type]
            if kind.spelling:
                return kind.spelling.number_of(exact)
        except PunctuationError as error:
            raise PunctuationError(f"column {name!r} of {self._topic}: {error}") from None
        if isinstance(exact, Decimal) and not kind.fits(exact):
            raise PunctuationError(f"column {name!r} of {self._topic} is {kind}, which {value} is not")
        return to_scalar(exact, domain)


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
