"""Random records for any pipeline of `graph_world`, which collide: few keys, four sellers, few partitions."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from endmark.domain import Domain
from endmark.pipeline import Pipeline
from support.formats import said
from support.graph_features import RARELY, Often
from support.graph_values import AT_ENDS, EPOCHS, LAST_EPOCH, USUAL, Values
from support.graph_world import TIME, spell, value_of
from support.sizes import speakers
from support.verify_gaps import with_gaps
from support.verify_histories import stamp
from support.verify_world import EPOCH, Record, promise

KINDS = [*["row"] * 20, *["close"] * 3, *["pattern"] * 3, "heartbeat", "bad"]
_LATER = [
    *[0] * 140,
    *[-2, -1, 1, 2] * 12,
    *[-0.000001, 0.000001] * 4,
    250_000_000_000,
]  # seconds, than time moves on
BAD = [b"{", None, b'{"seller_id": 1}', b'{"$punctuation": {"nowhere": {"equals": 1}}}', b"[]"]


@st.composite
def graph_records(
    draw: st.DrawFn, pipeline: Pipeline, partitions: Mapping[str, int], often: Often = RARELY
) -> list[Record]:
    """Records which mostly keep what their streams declare; time moves on, else most rows would be late.

    A few rows are of a far future, and each stream's records are in its format. Partitions are counted by
    topic. The clocks of streams may differ, and where partitions can be idle, one falls silent for a while.
    """
    pace = draw(st.sampled_from([0.1, 0.25, 0.5]))
    size = draw(st.integers(20, 30 + 20 * len(pipeline.sides)))
    # A key rarely has rows of all of many streams.
    last = 8 if len(pipeline.sides) < 3 else 3
    values = draw(_values(pipeline))
    producers = [
        _Producer(draw, pipeline, stream, partitions, last, values) for stream in pipeline.read_streams
    ]
    apart = {producer.stream: 0 for producer in producers}
    if draw(often.has("other clocks", among=6)):
        apart = {stream: draw(st.sampled_from([0, -1, 1, -6, 6])) for stream in apart}
    found: list[Record] = []
    for place in range(size):
        producer = draw(st.sampled_from(producers))
        now = place * pace + draw(st.sampled_from(_LATER)) + apart[producer.stream]
        seller, up = draw(st.sampled_from([1, 1, 2, 3, 4])), last * place // size
        if draw(st.integers(0, 11)) == 0:  # else a join of many streams has few results
            records = [each.row(up, seller, place * pace + apart[each.stream]) for each in producers]
        else:
            records = producer.says(draw(st.sampled_from(KINDS)), up, seller, now)
        found += [replace(record, timestamp=stamp(place * pace)) for record in records]
    everywhere = draw(st.booleans())
    for producer in producers:
        if everywhere or draw(st.integers(0, 3)) < 3:
            ends = producer.ends(size * pace + apart[producer.stream], everywhere=everywhere)
            found += [replace(each, timestamp=stamp(size * pace)) for each in ends]
    found = said(found, pipeline.streams)
    silences = any(stream.event_time.idle is not None for stream in pipeline.streams.values())
    return draw(_with_a_silence(found, partitions, pace)) if silences else found


@st.composite
def _with_a_silence(
    draw: st.DrawFn, records: list[Record], partitions: Mapping[str, int], pace: float
) -> list[Record]:
    """Records of which one partition brings some much later than the others."""
    topic = draw(st.sampled_from(sorted(partitions)))
    partition = draw(st.integers(0, partitions[topic] - 1))
    start = draw(st.integers(0, len(records)))
    end = start + draw(st.integers(5, 40))

    def arrival(place: int) -> int:
        held = (records[place].topic, records[place].partition) == (topic, partition)
        return end if held and start <= place < end else place

    order = sorted(range(len(records)), key=arrival)
    return [replace(records[place], timestamp=stamp(now * pace)) for now, place in enumerate(order)]


@st.composite
def _values(draw: st.DrawFn, pipeline: Pipeline) -> Values:
    """The values of a world: usual ones, or those at the ends of types, at any of these times."""
    values = draw(st.sampled_from([USUAL, USUAL, AT_ENDS]))
    bounded = any(stream.event_time.ahead is not None for stream in pipeline.streams.values())
    epochs = [*EPOCHS, *([] if bounded else [LAST_EPOCH] * 3)]
    return replace(values, epoch=draw(st.sampled_from([EPOCH, *epochs])))


class _Producer:
    """The producer of one stream, which mostly keeps what the stream declares; keys go up to `last`."""

    def __init__(
        self,
        draw: st.DrawFn,
        pipeline: Pipeline,
        stream: str,
        partitions: Mapping[str, int],
        last: int,
        values: Values,
    ) -> None:
        self.stream = stream
        self._draw = draw
        self._last = last
        self._values = values
        self._declared = pipeline.streams[stream]
        self._topic = self._declared.topic
        self._count = partitions[self._topic]
        self._key = [name for name in pipeline.stage_of(stream).key if name in self._declared.columns]
        # A key that is derived from the columns of a stream is in any partition.
        self._scattered = self._declared.punctuation_scope == "topic" or not self._key

    def says(self, kind: str, up: int, seller: int, now: float) -> list[Record]:
        """Records of a kind, when keys have come up to a number."""
        match kind:
            case "row":
                return [self.row(self._key_near(up), seller, now)]
            case "close" if self._closes:
                key = max(0, up - self._draw(st.sampled_from([1, 2, 2, 3, 3, 4])))
                return self._close(spell(self._declared, key, seller, now, self._values))
            case "pattern" if self._declared.punctuated_on:
                return self._pattern(up, now)
            case "heartbeat":
                ends: dict[str, Any] = {"to": self._values.instant(now - self._draw(st.integers(0, 4)))}
                ends |= {"to_open": True} if self._draw(st.booleans()) else {}
                return self._promised({TIME: {"between": ends}})
        at = self._draw(st.integers(0, self._count - 1))
        return [Record(self._topic, at, self._draw(st.sampled_from(BAD)))]

    def ends(self, now: float, *, everywhere: bool) -> list[Record]:
        """Promises of most keys and of a time, or of the end of the stream, so that groups are final.

        All streams that can promise their end do so in every partition if they end `everywhere`.
        """
        end = self._values.instant(now + self._draw(st.integers(-2, 9)))
        found = self._promised({TIME: {"between": {"to": end}}})
        on = self._declared.punctuated_on
        if on and everywhere:
            return found + [self._promise({on[0]: {"anything": True}}, home) for home in range(self._count)]
        whole = self._draw(st.booleans())
        if on and whole:
            return found + self._promised({on[0]: {"anything": True}})
        if self._closes:
            last = spell(self._declared, self._draw(st.integers(self._last - 2, self._last)), 1, now)
            ends = {name: "from" if self._falls(name) else "to" for name in self._key[:1]}
            found += self._promised({name: {"between": {end: last[name]}} for name, end in ends.items()})
        return found

    def _falls(self, column: str) -> bool:
        """Return whether the values of a column fall as their numbers rise."""
        return self._declared.columns[column].domain is Domain.DECIMAL

    def row(self, key: int, seller: int, now: float) -> Record:
        """A row of a key."""
        row = json.dumps(spell(self._declared, key, seller, now, self._values)).encode()
        record = self._draw(with_gaps(Record(self._topic, 0, row), self._declared, self._key))
        return replace(record, partition=self._home(json.loads(record.value or b"")))

    @property
    def _closes(self) -> bool:
        return bool(self._key) and set(self._key) <= set(self._declared.punctuated_on)

    def _close(self, row: Mapping[str, Any]) -> list[Record]:
        named = {name: {"equals": row[name]} for name in self._key}
        if self._declared.punctuation_scope == "topic":
            return self._promised(named)
        return [self._promise(named, self._home(row))]

    def _key_near(self, up: int) -> int:
        """The number of a row's key; of an ordered stream, mostly the one that has come."""
        if self._declared.ordered or self._declared.clustered:
            falls = any(map(self._falls, self._key)) != ("descending" in self._declared.ordered.values())
            return self._draw(st.sampled_from([self._last - up if falls else up] * 5 + [up]))
        near = self._draw(st.sampled_from([up, up, up, up - 1, up - 1, up - 2, up + 1]))
        return min(max(0, near), self._last)

    def _pattern(self, up: int, now: float) -> list[Record]:
        """A pattern that mostly all partitions promise; or names of keys, each in its own partition."""
        on = self._draw(
            st.lists(st.sampled_from(self._declared.punctuated_on), min_size=1, max_size=2, unique=True)
        )
        patterns = {column: self._draw(self._of(column, up, now)) for column in on}
        restricting = {column for column, each in patterns.items() if "anything" not in each}
        if restricting != set(self._key) or self._declared.punctuation_scope == "topic":
            return self._promised(patterns)
        if len(self._key) == 1 and "one_of" in patterns[self._key[0]]:
            (column,) = self._key
            return [
                self._promise(patterns | {column: {"one_of": living}}, home)
                for home in range(self._count)
                for living in [
                    [each for each in patterns[column]["one_of"] if self._home({column: each}) == home]
                ]
            ]
        if all("equals" in patterns[column] for column in self._key):
            home = self._home({column: patterns[column]["equals"] for column in self._key})
            return [self._promise(patterns, home)]
        return self._promised(patterns)

    def _of(self, column: str, up: int, now: float) -> st.SearchStrategy[dict[str, Any]]:
        """A pattern on a column, mostly of values that are over."""
        kind = str(self._declared.columns[column].of_values)
        value = st.builds(
            lambda key, seller, back: value_of(column, kind, key, seller, now - back, self._values),
            st.integers(0, max(0, up - 2)),
            st.sampled_from([1, 2, 3, 3, 4, 4, 4]),
            st.integers(1, 4),
        )
        bounds = st.sampled_from([("to",)] * 6 + [("from", "to"), ("from", "to"), ("from",), ()])
        between = bounds.flatmap(
            lambda names: st.fixed_dictionaries(
                dict.fromkeys(names, value), optional={f"{name}_open": st.booleans() for name in names}
            )
        )
        return st.one_of(
            *[value.map(lambda each: {"equals": each})] * 3,
            *[st.lists(value, max_size=3, unique=True).map(lambda each: {"one_of": each})] * 2,
            *[between.map(lambda each: {"between": each})] * 4,
            st.just({"anything": True}),
        )

    def _promised(self, patterns: Mapping[str, Any]) -> list[Record]:
        """The promise of some partitions, mostly of all."""
        return [self._promise(patterns, home) for home in self._draw(speakers(self._count))]

    def _promise(self, patterns: Mapping[str, Any], home: int) -> Record:
        return replace(promise("", patterns, home), topic=self._topic)

    def _home(self, row: Mapping[str, Any]) -> int:
        """The partition of a row. Equal keys are spelled alike."""
        if self._scattered:
            return self._draw(st.integers(0, self._count - 1))
        return zlib.crc32(json.dumps([row.get(name) for name in self._key]).encode()) % self._count
