"""Promises as JSON. They are stored so in manifests and held batches, and sent so from ingest to the buckets.

{"partition": 0, "offset": 7, "patterns": {"bids_item_id": {"between": {"to": 100}}}}
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from endmark.punctuation.columns import domain_of_type
from endmark.punctuation.punctuation import Origin, Punctuation
from endmark.punctuation.wire_json import pattern_from_json, pattern_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from endmark.domain import Domain
    from endmark.state.keys import KeySpec

WrittenPatterns = dict[str, Any]  # in JSON, by column


class PromiseCodec:
    """Reads and writes the promises of one stream.

    Args:
        stream: the name of the stream.
        columns: the columns that its promises may restrict, by the stream's own names.
        key: the key of its rows, by the stream's own names.
    """

    def __init__(self, stream: str, columns: pa.Schema, key: KeySpec) -> None:
        self.stream = stream
        self._columns = columns
        self._shared = dict(zip(key.columns, key.shared.columns, strict=True))

    @cached_property
    def domains(self) -> dict[str, Domain]:
        """The domains of the columns that promises may restrict."""
        return {field.name: domain_of_type(field.type) for field in self._columns}

    def write_patterns(self, promise: Punctuation) -> WrittenPatterns:
        """Return the patterns of a promise, ready for JSON."""
        return {name: pattern_to_json(pattern, self.domains[name]) for name, pattern in promise.patterns}

    def read_patterns(self, written: WrittenPatterns, origin: Origin | None = None) -> Punctuation:
        """Read a promise from its patterns. `origin` is its coordinates in Kafka; `None` if it has none."""
        return Punctuation.read(self.stream, written, self.domains, pattern_from_json, origin)

    def write(self, promise: Punctuation) -> dict[str, Any]:
        """Return a promise and its coordinates in Kafka, ready for JSON."""
        origin = promise.coordinates
        patterns = self.write_patterns(promise)
        return {"partition": origin.partition, "offset": origin.offset, "patterns": patterns}

    def read(self, written: Iterable[Mapping[str, Any]]) -> list[Punctuation]:
        """Read promises, and sort them: a repeated batch may bring them in another order."""
        return [
            self.read_patterns(one["patterns"], Origin(one["partition"], one["offset"]))
            for one in sorted(written, key=_place_and_text)
        ]

    def on_key(self, promises: Iterable[Punctuation]) -> Sequence[Punctuation]:
        """Return the promises that restrict columns of the key alone, by the names that both sides share."""
        return [
            Punctuation.of(
                one.stream, {self._shared[name]: pattern for name, pattern in one.patterns}, one.origin
            )
            for one in promises
            if self._shared.keys() >= set(one.names())
        ]


def _place_and_text(promise: Mapping[str, Any]) -> tuple[int, int, str]:
    # All promises of a frame have the same coordinates, so their text decides.
    return promise["partition"], promise["offset"], json.dumps(promise["patterns"])
