"""Drafts a stream from a sample: its columns, event time and promises, and notes on what was guessed."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from endmark.domain import Domain
from endmark.draft.columns import LIKE_A_KEY, MOST, fits, infer, is_rounded, is_time, time_of
from endmark.draft.reading import read
from endmark.errors import ConfigError
from endmark.pipeline.formats import FORMATS
from endmark.pipeline.record_parts import RecordPart
from endmark.pipeline.sources import EventTime
from endmark.types import ColumnType, Spelling
from endmark.wire.json.shape import shape_of
from endmark.wire.json.spelling import TooLargeError, require_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from endmark.draft.columns import Inferred
    from endmark.draft.reading import Reading, Row, Spelled
    from endmark.draft.samples import Sample

_PUBLISHED = (
    "a pipeline publishes this topic, so `endmark chain FILE STEP`, given the file and the step of that "
    "pipeline, prints the exact columns, event time, lateness and punctuations"
)
# In seconds. The least is not 0: later rows may be out of order, though no row of a short sample is.
_LATENESSES = [5, 30, 60, 300, 1_800, 3_600, 21_600, 86_400]
_DAY = 86_400
_AHEAD: timedelta = EventTime.model_fields["ahead"].default
_UNITS = {
    Spelling.SECONDS: "seconds",
    Spelling.MILLISECONDS: "milliseconds",
    Spelling.MICROSECONDS: "microseconds",
}
_LIKE_A_TIME = re.compile(r'"?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:.*|1[0-9]{9}|1[0-9]{12}')


@dataclass(frozen=True)
class _Disorder:
    """The disorder of timestamps.

    A few odd rows are left out of it. One default date, such as 1970-01-01, set the lateness to 56 years, and
    one of 9999-12-31 to 7,973 years.

    Args:
        ahead: the number of rows that are more than an hour after their time in Kafka.
        is_ahead: whether such rows are too many to be odd.
        most: by how much a row is older than the newest one before it in its partition, at most.
        late: the number of odd rows that come more than a day out of order.
    """

    ahead: int
    is_ahead: bool
    most: timedelta
    late: int


@dataclass
class DraftStream:
    """A stream of the pipeline file.

    Args:
        name: the stream's name.
        topic: the topic.
        format: the wire format.
        columns: the types of the columns.
        taken_from: the part of the record of each column that is no member of its own name.
        event_time: the column of event time.
        lateness: the seconds by which rows of a partition came out of order, rounded up.
        is_ahead: whether many rows have event times of more than an hour after Kafka's.
        punctuated_on: the columns that punctuations restrict.
        is_spread: whether rows of one value in these columns are in several partitions.
        has_updates: whether Debezium captured updates.
        ignores: whether rows have members that are left out.
        records: the number of records of the sample.
        rows: the number of rows among them.
        published: whether a pipeline publishes the topic.
        notes: comments by the field that they are on, such as `event_time` or `columns.total`.
    """

    name: str
    topic: str
    format: str
    columns: dict[str, ColumnType]
    taken_from: dict[str, str]
    event_time: str
    lateness: int
    is_ahead: bool
    punctuated_on: tuple[str, ...]
    is_spread: bool
    has_updates: bool
    ignores: bool
    records: int
    rows: int
    published: bool
    notes: dict[str, str]

    @property
    def required(self) -> tuple[str, ...]:
        """The columns that the stream cannot do without: the event time, and those of punctuations."""
        return (self.event_time, *self.punctuated_on)

    @property
    def paths(self) -> dict[str, tuple[str, ...]]:
        """For each column the names of the nested members that lead to it."""
        return {
            name: RecordPart.parse(self.taken_from[name]).path if name in self.taken_from else (name,)
            for name in self.columns
        }

    @property
    def key_columns(self) -> dict[str, ColumnType]:
        """The columns that may be keys, less the event time, with their types without null."""
        return {
            name: kind.required.of_values
            for name, kind in self.columns.items()
            if name != self.event_time and kind.domain is not Domain.DOUBLE
        }

    def take_primary_key(self) -> tuple[str, ...]:
        """Take the primary key of a captured table with updates, so that deletions close no key any more.

        Returns:
            The key of a table with the newest rows. It is empty for other streams, and if rows of a key are
            in several partitions, since no order says which of them is the newest.
        """
        key = self.punctuated_on
        if not key or not self.has_updates or self.is_spread or not set(key) <= self.key_columns.keys():
            return ()
        self.punctuated_on = ()
        del self.notes["punctuated_on"]
        self.note(
            "columns",
            f"if no deleted key is inserted again, say punctuated_on: [{', '.join(key)}]: a deletion then "
            "closes its key",
        )
        return key

    def leave_out(self, column: str, reason: str) -> None:
        """Leave a column out of the stream."""
        del self.columns[column]
        self.taken_from.pop(column, None)
        self.ignores = True
        self.note("extra", f"{shown(column)} is left out: {reason}")

    def note(self, field: str, text: str) -> None:
        """Add a comment on a field."""
        self.notes[field] = f"{self.notes[field]}; {text}" if field in self.notes else text


def draft_stream(name: str, sample: Sample) -> DraftStream:
    """Draft a stream.

    Raises:
        ConfigError: the sample has no rows, or no column of timestamps.
    """
    reading = read(sample)
    inferred = infer(reading.rows)
    if not _timestamps(inferred):  # one empty text among 100 times hid the event time
        inferred = infer(reading.rows, nearly_times=True)
    if not _timestamps(inferred):
        inferred = infer(reading.rows, nearly_times=True, seconds=True)
    disorder = {
        column: _disorder(reading.rows, column, kind.required)
        for column, kind in _timestamps(inferred).items()
    }
    if not disorder:
        raise ConfigError(_without_time(sample.topic, reading.rows))
    time = min(disorder, key=lambda column: (inferred.columns[column].nullable, disorder[column].most))
    promised_on = _punctuated_on(reading, inferred, time)
    found = DraftStream(
        name,
        sample.topic,
        reading.format,
        dict(inferred.columns),
        {name: part for name, part in reading.taken_from.items() if name in inferred.columns},
        time,
        _rounded_up(disorder[time].most),
        is_ahead=disorder[time].is_ahead,
        punctuated_on=promised_on,
        is_spread=bool(promised_on) and _is_spread(reading.rows, promised_on),
        has_updates=reading.updates > 0,
        ignores=bool(inferred.left_out),
        records=len(sample.records),
        rows=len(reading.rows),
        published=any(record.published for record in sample.records),
        notes={},
    )
    if found.published:
        found.note("topic", _PUBLISHED)
    _note_columns(found, reading, inferred)
    _note_time(found, disorder)
    _note_promises(found, reading)
    _require(found, inferred)
    _leave_out_deep(found)
    return found


def _leave_out_deep(found: DraftStream) -> None:
    """Leave out the columns of the deepest objects, one object after the other, until rows can be read."""
    while not _is_readable(found):
        objects = [path[:-1] for name, path in found.paths.items() if name not in found.required]
        if not objects:
            return  # the check of the drafted file says what is wrong
        deepest = max(reversed(objects), key=len)
        for name in [name for name, path in found.paths.items() if path[:-1] == deepest]:
            if name not in found.required:
                found.leave_out(name, "rows of so many members so deep in objects cannot be read")


def _is_readable(found: DraftStream) -> bool:
    """Return whether the rows of a stream can be read, if members that are no columns are left out."""
    if FORMATS[found.format].refuse_unreadable is None:
        return True
    try:
        require_size(found.columns, shape_of(found.paths), ignoring=found.ignores)
    except TooLargeError:
        return False
    return True


def _note_columns(found: DraftStream, reading: Reading, inferred: Inferred) -> None:
    for column, reason in inferred.left_out.items():
        found.note("extra", f"{shown(column)} is left out: {reason}")
    for column, kind in inferred.columns.items():
        values = [value for row in reading.rows if (value := row.values.get(column)) is not None]
        if found.format != "xml" and kind.domain is Domain.DOUBLE and any(map(is_rounded, values)):
            found.note(
                f"columns.{column}", 'doubles are rounded; sent as text ("12.50"), it may be a decimal'
            )
        if found.format != "xml" and kind.domain is Domain.DECIMAL:
            found.note(
                f"columns.{column}",
                "guess: these texts are decimals; if they are versions or codes, write string",
            )
        if kind.spelling:
            unit = _UNITS[kind.spelling]
            first = next(time_of(value, kind) for value in values if is_time(value, kind))
            found.note(
                f"columns.{column}",
                f"guess: these integers are {unit} since 1970, the first is {first:%Y-%m-%dT%H:%M:%SZ}; if "
                "they are none, write long",
            )
        if odd := [value for value in values if not fits(value, kind.required)]:
            found.note(
                f"columns.{column}",
                f"guess: {len(odd)} of {len(values)} values do not fit, and would be dead letters",
            )
    if reading.others:
        found.note(
            "format", f"of {found.records} records, {reading.others} cannot be read as {reading.format}"
        )
    if reading.updates:
        found.note("updates", "each update is a row of its own, beside the earlier ones of its key")


def _note_time(found: DraftStream, times: Mapping[str, _Disorder]) -> None:
    if others := [column for column in times if column != found.event_time]:
        what = f"guess: {found.event_time} is the time of a row, since it is most in order"
        found.note("event_time", f"{what}; other timestamps: {', '.join(others)}")
    disorder = times[found.event_time]
    if disorder.most:
        found.note("event_time", "lateness: so much were rows of the sample out of order")
    else:
        found.note("event_time", "guess: lateness, since no row of the sample was out of order")
    if disorder.late:
        found.note(
            "event_time",
            f"guess: {disorder.late} of {found.rows} rows come more than a day out of order, and would be "
            "late",
        )
    if disorder.ahead and not found.is_ahead:
        found.note(
            "event_time",
            f"guess: {disorder.ahead} of {found.rows} rows are more than 1 h after their time in Kafka, and "
            "would be violations",
        )
    if found.is_ahead:
        found.note(
            "event_time", "ahead: some rows are more than 1 h after their time in Kafka, so any may be"
        )


def _note_promises(found: DraftStream, reading: Reading) -> None:
    if found.punctuated_on:
        what = "deletions name" if reading.format == "debezium" else "punctuations of the sample restrict"
        named = "the primary key" if reading.format == "debezium" else "these columns"
        found.note("punctuated_on", f"{what} {named}")
        if found.is_spread:
            found.note("punctuated_on", "scope: their values have rows in several partitions")
    elif reading.format == "debezium":
        found.note("columns", "name the primary key in punctuated_on: a deletion then closes its key")


def _require(found: DraftStream, inferred: Inferred) -> None:
    """Declare as never null what must have a value, and say how many rows then have none."""
    for column in found.required:
        if found.columns[column].nullable:
            found.columns[column] = found.columns[column].required
            missing = inferred.missing[column]
            found.note(
                f"columns.{column}", f"{missing} rows of the sample lack it, and would be dead letters"
            )


def _punctuated_on(reading: Reading, inferred: Inferred, time: str) -> tuple[str, ...]:
    """Return the columns that punctuations restrict, heartbeats not counted."""
    heartbeats = FORMATS[reading.format].heartbeats
    promised = [
        column
        for promise in reading.promises
        if not (heartbeats and promise.up_to and promise.columns == (time,))
        for column in promise.columns
    ]
    return tuple(
        column for column in dict.fromkeys([*promised, *reading.primary]) if column in inferred.columns
    )


def _timestamps(inferred: Inferred) -> dict[str, ColumnType]:
    return {name: kind for name, kind in inferred.columns.items() if kind.domain is Domain.TIMESTAMP}


def _is_spread(rows: Sequence[Row], columns: Sequence[str]) -> bool:
    """Return whether rows of equal values in some columns are in several partitions."""
    partition_of: dict[tuple[Spelled | None, ...], int] = {}
    return any(
        partition_of.setdefault(tuple(map(row.values.get, columns)), row.record.partition)
        != row.record.partition
        for row in rows
    )


def _times(rows: Sequence[Row], column: str, kind: ColumnType) -> Iterator[tuple[Row, datetime]]:
    """Yield the rows that have a timestamp of a type in a column, with it."""
    for row in rows:
        value = row.values.get(column)
        if value is not None and fits(value, kind):
            yield row, time_of(value, kind)


def _disorder(rows: Sequence[Row], column: str, kind: ColumnType) -> _Disorder:
    times = [(row, at, _is_ahead(row, at)) for row, at in _times(rows, column, kind)]
    ahead = sum(future for _, _, future in times)
    is_ahead = len(times) - ahead < MOST * len(times)
    newest: dict[int, datetime] = {}
    delays = []
    for row, at, future in times:
        if future and not is_ahead:
            continue
        before = newest.setdefault(row.record.partition, at)
        delays.append(max(before - at, timedelta(0)))
        newest[row.record.partition] = max(before, at)
    usual = [delay for delay in delays if delay <= timedelta(seconds=_DAY)]
    if len(usual) < MOST * len(delays):
        return _Disorder(ahead, is_ahead, max(delays), 0)
    return _Disorder(ahead, is_ahead, max(usual, default=timedelta(0)), len(delays) - len(usual))


def _is_ahead(row: Row, at: datetime) -> bool:
    """Return whether a row's event time is too long after the record's timestamp in Kafka."""
    if row.record.timestamp is None:
        return False
    return at.timestamp() * 1_000 > row.record.timestamp + _AHEAD.total_seconds() * 1_000


def _rounded_up(duration: timedelta) -> int:
    """Return a duration in seconds, rounded up to one that people write."""
    seconds = duration.total_seconds()
    return next((each for each in _LATENESSES if each >= seconds), -int(-seconds // _DAY) * _DAY)


def _without_time(topic: str, rows: Sequence[Row]) -> str:
    like: dict[str, str] = {}
    for name in dict.fromkeys(name for row in rows for name in row.values):
        values = [value for row in rows if (value := row.values.get(name)) is not None]
        if times := sum(fits(value, ColumnType.TIMESTAMP) for value in values):
            like[name] = f"but only {times} of {len(values)} values are such"
        elif spelled := [value.plain for value in values if _LIKE_A_TIME.fullmatch(value.plain)]:
            like[name] = f"but is spelled {spelled[-1][:40]}"
    seems = "".join(f"; {shown(name)} may be one, {why}" for name, why in like.items())
    return (
        f"topic {topic}: no column has timestamps such as 2026-01-31T12:00:00Z (UTC) or 1769860800000 (ms), "
        f"and one is needed as the event time of rows{seems[:400]}; let the producer send one"
    )


def shown(name: str) -> str:
    """Return the name of a member for a comment, in ASCII and not too long."""
    return name if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,62}", name) else json.dumps(name)[:60]


def shared_key(streams: Sequence[DraftStream]) -> tuple[str, ...]:
    """Return the columns to join streams on: those of equal name and type that all of them have.

    The columns of punctuations come first, if all streams can be joined on them. Otherwise it is one column,
    and one that is named like a key if there is one. Empty if no column is shared.
    """
    first, *others = streams
    shared = [
        name
        for name, kind in first.key_columns.items()
        if all(other.key_columns.get(name) == kind for other in others)
    ]
    promised = [tuple(name for name in each.punctuated_on if name in shared) for each in streams]
    alone = sorted(((name,) for name in shared), key=lambda key: not LIKE_A_KEY.fullmatch(key[0]))
    able = [key for key in [*promised, *alone] if key and all(_joins_on(each, key) for each in streams)]
    return able[0] if able else ()


def _joins_on(stream: DraftStream, key: tuple[str, ...]) -> bool:
    """Return whether the punctuations of a stream restrict all of a join key, or nothing of it."""
    named = set(key) & set(stream.punctuated_on)
    return not named or named == set(key)
