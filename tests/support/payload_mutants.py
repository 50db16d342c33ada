"""Sound values of records with a few small cuts and insertions."""

from __future__ import annotations

from hypothesis import strategies as st

from support.payloads import (
    ALIVE,
    ALIVE_EXTRA,
    ALIVE_KEYS,
    ALIVE_NUMBERS,
    HEARTBEAT,
    LEAST,
    MANY,
    PROMISE,
    ROW,
    having,
)

FRAGMENTS = [*b'{}[]",:\\ \n\t0123456789.eE+-ntfZ$', *b"\x00\x7f\xff\xed\xc3\xa9"]
TOKENS = [
    b"null",
    b"NaN",
    b"Infinity",
    b"-inf",
    b"1e5",
    b"-0",
    b"1E400",
    rb"\u0000",
    rb"\ud800",
    b",}",
    b"2026",
]
SEEDS = {
    "one key": [
        ROW,
        PROMISE,
        HEARTBEAT,
        ALIVE["promise between values"][0],
        ALIVE["promise of several values"][0],
        having("note", "\u00fc\U0001f600".encode().join([b'"', b'"'])),
    ],
    "many keys": [MANY, ALIVE_KEYS["of two values of one column"][0]],
    "gaps": [ROW, LEAST, having("note", b"null"), PROMISE],
    "extra members": [
        PROMISE,
        *(
            ALIVE_EXTRA[name][0]
            for name in ("in front", "list of lists", "columns inside", "brackets in a text", "beside nulls")
        ),
    ],
    "numbers": [value for value, _ in ALIVE_NUMBERS.values()],
}


@st.composite
def mutants(draw: st.DrawFn, stream: str) -> bytes:
    """A sound value of a stream with a few small cuts and insertions."""
    value = draw(st.sampled_from(SEEDS[stream]))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(value)))
        cut = draw(st.integers(0, 3))
        inserted = draw(
            st.one_of(
                st.just(b""), st.sampled_from(TOKENS), st.sampled_from(FRAGMENTS).map(lambda b: bytes([b]))
            )
        )
        value = value[:start] + inserted + value[start + cut :]
    return value
