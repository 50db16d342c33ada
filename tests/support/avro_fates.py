"""The fates of binary records by the engine's parser and by the reader of `verify`, and changes of bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import strategies as st

from endmark.pipeline.formats import FORMATS
from endmark.verify.formats.registry import FORMATS as READERS
from endmark.verify.formats.registry import reason_of
from support.verify_fates import Promise, fate

if TYPE_CHECKING:
    from endmark.pipeline import Stream
    from support.avro_records import Schemas

FEW = st.sampled_from([1, 3, 32])  # records of which arrays are read one by one
TOKENS = [
    *(b"\x80" * 10, b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x02", b"\xff" * 9 + b"\x7f", b"\xff" * 11),
    *(b"\x80" * 8 + b"\x10", b"\xfe\xff\xff\xff\xff\xff\xff\xff\x1f", b"\x00", b"\x01", b"\x02", b"\x03"),
    *(b"\xc0\xaf", b"\xed\xa0\x80", b"\xff", b"\x80", b"\x00\x00\xc0\x7f", b"\x00" * 6 + b"\xf0\x7f"),
]


def fates(stream: Stream, schemas: Schemas, values: list[bytes | None]) -> list[Any]:
    """Parse all values at once, and return the fate of each, as in test_formats. Each rejection has the
    reason that `verify` finds."""
    on = stream.punctuated_on
    parser = FORMATS[stream.format].parser(stream, "bids", on, on, schemas)
    # An array that does not begin where its buffer does.
    parsed = parser.parse(pa.array([b"before", *values, b"behind"], pa.binary())[1:-1])
    found: dict[int, Any] = dict(zip(parsed.row_at.tolist(), parsed.rows.to_pylist(), strict=True))
    keys = [tuple(key.values()) for key in parsed.closed_keys.to_pylist()]
    found.update(zip(parsed.closed_keys_at.tolist(), keys, strict=True))
    found.update((at, "promise") for at, _ in parsed.promises)
    form = READERS[stream.format].given(schemas)  # type: ignore[arg-type]
    for rejection in parsed.rejections:
        assert rejection.value == values[rejection.at]
        assert rejection.reason == reason_of(rejection.value, stream, form), rejection
        found[rejection.at] = "dead letter"
    assert list(parsed.row_at) == sorted(parsed.row_at)
    assert list(parsed.closed_keys_at) == sorted(parsed.closed_keys_at)
    assert parsed.skipped == len(values) - len(found)
    return [found.get(at, "skipped") for at in range(len(values))]


def plain(stream: Stream, schemas: Schemas, value: bytes | None) -> Any:
    """Return the fate of one value by the reader of `verify`, in the form that `fates` has."""
    form = READERS[stream.format].given(schemas)  # type: ignore[arg-type]
    assert form.flat is not None
    if form.skips is not None and form.skips(value or b"", stream):
        return "skipped"
    found = fate(stream, form.flat(value or b"", stream))
    return "promise" if isinstance(found, Promise) else found


@st.composite
def changed(draw: st.DrawFn, value: bytes) -> bytes:
    """A record with a few small cuts and insertions."""
    for _ in range(draw(st.integers(1, 3))):
        start, cut = draw(st.integers(0, len(value))), draw(st.integers(0, 3))
        inserted = draw(st.one_of(st.just(b""), st.sampled_from(TOKENS), st.binary(max_size=2)))
        value = value[:start] + inserted + value[start + cut :]
    return value
