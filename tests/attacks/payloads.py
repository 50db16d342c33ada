"""Hostile inputs: records in each format, control records, and pipeline files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

import yaml

from endmark.pipeline import Stream
from support import formats
from support.payload_mutants import FRAGMENTS, TOKENS
from support.payloads import ALIVE, DEAD, ROW, having

# Records that have stopped a job, or were thought to.
_TEXTS = [
    rb'{"item_id":"\ud800"}',
    rb'{"\ud800":1}',
    rb'{"$punctuation":{"\ud800":{"equals":1}}}',
    rb'{"$punctuation":{"item_id":{"equals":"\ud800"}}}',
    b'{"item_id":' + b"9" * 100_000 + b"}",
    b'{"' + b"x" * 500_000 + b'":1}',
    having("note", b'"' + b"\\u0000" * 1000 + b'"'),
    having("note", b'"' + b"x" * 500_000 + b'"'),
    having("item_id", b'"' + b"y" * 500_000 + b'"'),
    having("item_id", b"9223372036854775807"),
    having("item_id", b"-9223372036854775808"),
    having("bid_at", b'"9999-12-31T23:59:59.999999Z"'),
    having("bid_at", b'"0001-01-01T00:00:00Z"'),
    b"[" * 200_000,
    b'{"a":' * 20_000,
]
_YEARS = (1, 1969, 1970, 2262, 2263, 9999)
_ITEMS = 50  # the greatest item of sound rows
_XML = [
    b"<record>" + b"<a/>" * 12_000 + b"</record>",
    b"<record>" + b"<a>" * 10_000,
    b'<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><record>&b;</record>',
    b'<!DOCTYPE r SYSTEM "http://127.0.0.1:9/x"><record/>',
    b"<record>" + b"x" * 60_000 + b"</record>",
    b"<" + b"n" * 60_000 + b"/>",
    b"<record " + b" ".join(b"a%d='1'" % number for number in range(5_000)) + b"/>",
    b"\xff\xfe<\x00r\x00/\x00>\x00",
    b"<?xml version='1.0' encoding='UTF-7'?><record/>",
    b"<record><item_id>" + b"9" * 50_000 + b"</item_id></record>",
    b"<record>" + b"<a/>" * 60_000 + b"</record>",
    b"<record>" + b"<item_id>1</item_id>" * 45_000 + b"</record>",
]
_XML_TOKENS = [b"<!DOCTYPE a>", b"&lt;", b"&a;", b"<![CDATA[1]]>", b"<!-- 1 -->", b"<?a 1?>", b" a='1'"]
_XML_TOKENS += [b"*", b"{1, 2}", b"[1, 2)", b"&#55;", b"\xc2\xa0", b"\x85", b"&#0;", b"&#xD800;"]

# No duration is longer than a second: a job that was told to begin a batch every ten seconds ran 285 batches
# in 34 minutes, and was not through.
_VALUES: list[Any] = [
    *("0.01ms", "999999999999d", "-1s", "1e400s", "true", "010", "\u0661s", "", " ", "1s1s", "P1D"),
    *("auto", "scan", "hybrid", "0s", "1s", "64MB", "1kB", "999999999999999GB", "-1MB", "null"),
    *(None, True, 0, -1, 1, 500, 10**32, 2**63, 1e308, -0.0, [], {}, [1], {"a": 1}, "x" * 70_000),
]
_NAMES = [
    *(
        "steps.known.lookup.strategy",
        "steps.known.lookup.page_rows",
        "steps.known.lookup.time_per_batch",
        "steps.known.lookup.memory",
        "steps.matched.purge_every",
    ),
    *(
        "steps.matched.memory",
        "batch.records",
        "batch.every",
        "streams.items.event_time.idle",
        "name",
        "",
        "_class",
    ),
    *(
        "steps.known.lookup.cache.memory",
        "x" * 70_000,
        "a\u0000b",
        "lookup.\U0001f600",
        "'; DROP TABLE turns; --",
    ),
]
# Turns that have stopped a job: each knob of a time, size or count with each value beyond its bounds.
_BEYOND: list[Any] = ["0.01ms", "999999999999d", "999999999999999GB", 10**32, 10**400, -1, None, "many"]
_BOUNDED = [
    "batch.every",
    "batch.records",
    "steps.known.lookup.time_per_batch",
    "steps.known.lookup.memory",
    "steps.known.lookup.page_rows",
]
_BOUNDED += ["steps.known.lookup.cache.lifetime", "steps.matched.purge_every"]
_CONTROL = [
    *(
        json.dumps({"set": {name: value}, "by": by}).encode()
        for name in _BOUNDED
        for value in _BEYOND
        for by in ("Ann", "autotune")
        # This one means that a batch has no limit, so it is no attack.
        if (name, value) != ("steps.known.lookup.time_per_batch", None)
    ),
    rb'{"set":{"\ud800":1}}',
    rb'{"set":{"steps.known.lookup.strategy":"\ud800"},"by":"\udfff","why":"\ud800"}',
    b'{"set":{"steps.known.lookup.page_rows":' + b"[" * 32 + b"]" * 32 + b"}}",
    b'{"set":{"steps.known.lookup.page_rows":' + b"[" * 30_000 + b"]" * 30_000 + b"}}",
    b'{"pulse":{},"set":{}}',
    b'{"pulse":1}',
    b"null",
    b"",
    b"\x00",
]


def mutated(chance: Random, value: bytes, tokens: Sequence[bytes]) -> bytes:
    """The value with a few small cuts and insertions."""
    for _ in range(chance.randint(0, 3)):
        start, cut = chance.randint(0, len(value)), chance.randint(0, 3)
        inserted = chance.choice([b"", chance.choice(tokens), bytes([chance.choice(FRAGMENTS)])])
        value = value[:start] + inserted + value[start + cut :]
    return value


def records(chance: Random, stream: Stream, count: int) -> Iterator[bytes | None]:
    """So many records of a stream in its format, a third of them sound rows."""
    sound = [json.dumps(_row(chance, stream)).encode() for _ in range(20)]
    sound += [
        value for value, fate in ALIVE.values() if not isinstance(fate, dict) and b"anything" not in value
    ]
    seeds = [value for value in (_as_said(each, stream) for each in sound) if value is not None]
    listed: list[bytes | None] = [*_TEXTS, *DEAD.values()]
    listed += [_as_said(sound_row(chance, stream, year), stream) for year in _YEARS]
    if stream.format == "xml":
        listed += _XML
    tokens = _XML_TOKENS if stream.format == "xml" else TOKENS
    for number in range(count):
        if number < len(listed):
            yield listed[number]
        elif number % 3:
            yield mutated(chance, chance.choice(seeds), tokens)
        else:
            yield _as_said(json.dumps(_row(chance, stream)).encode(), stream)


def sound_row(chance: Random, stream: Stream, year: int = 2026) -> bytes:
    """A row of a stream as JSON, whose times are in this year."""
    row = _row(chance, stream)
    time = stream.event_time.column
    return json.dumps(row | {time: f"{year:04}{row[time][4:]}"}).encode()


def ends(stream: Stream) -> Iterator[bytes | None]:
    """The promise that no row of any seller comes, in each of two partitions."""
    ending = _as_said(json.dumps({formats.MARK: {"seller_id": {"anything": True}}}).encode(), stream)
    yield from (ending, ending)


def closings(stream: Stream) -> Iterator[bytes | None]:
    """Punctuations that close each item of `records`, each twice in a row: one for each of two partitions."""
    for item in range(_ITEMS + 1):
        closing = _as_said(json.dumps({formats.MARK: {"item_id": {"equals": item}}}).encode(), stream)
        yield from (closing, closing)


def _row(chance: Random, stream: Stream) -> dict[str, Any]:
    """A sound row of a few keys and sellers, at about the same time as all others."""
    row = json.loads(ROW) | {"item_id": chance.randint(0, _ITEMS), "seller_id": chance.randint(1, 9)}
    row["listed_at"] = row["bid_at"] = f"2026-01-01T00:00:{chance.randint(0, 59):02}Z"
    return {name: row[name] for name in stream.columns}


def _as_said(value: bytes, stream: Stream) -> bytes | None:
    """A JSON record in the format of its stream; `None` for one that is no JSON object."""
    if stream.format == "json":
        return value
    try:
        document: dict[str, Any] = json.loads(value)
    except ValueError:
        return None
    if stream.format == "xml":
        return formats.xml(document, stream)
    if formats.MARK in document:
        named: Mapping[str, Any] = document[formats.MARK]
        before = dict.fromkeys(stream.columns) | {name: each.get("equals") for name, each in named.items()}
        return formats.envelope("d", before, None)
    return formats.envelope("c", None, document)


def control_records(chance: Random, count: int) -> Iterator[bytes]:
    """So many records of the control topic, most of them turns that must be refused."""
    yield from _CONTROL
    for _ in range(count - len(_CONTROL)):
        turn = {"set": {chance.choice(_NAMES): chance.choice(_VALUES)}, "by": chance.choice(_NAMES)}
        text = json.dumps(turn, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")
        yield text if chance.random() < 0.7 else mutated(chance, text, TOKENS)


def knob_turns(chance: Random, count: int) -> Iterator[tuple[str, Any]]:
    """So many names and values for the sidecar."""
    return ((chance.choice(_NAMES), chance.choice(_VALUES)) for _ in range(count))


def refused_files(sound: str) -> Iterator[tuple[bytes, str]]:
    """Texts that are no pipeline file, each with a part of what must be said about it."""
    yield b"a: &a [*a]", "aliases"
    yield (
        b"a0: &a0 [x, x]\n"
        + b"".join(b"a%d: &a%d [*a%d, *a%d, *a%d]\n" % (n, n, n - 1, n - 1, n - 1) for n in range(1, 30)),
        "aliases",
    )
    yield b"[" * 3_000, "50 levels"
    yield b"{a: " * 3_000, "50 levels"
    yield sound.encode() + b"\nname: again\n", ", too; leave one out"
    yield _with(sound, "    topic: bids\n", "    topic: bids\n    topic: items\n"), ", too; leave one out"
    for duration in ("true", "010", "\u0661s", "1e400", "999999999999d", "0.01ms", "9" * 400, "-1s", "''"):
        yield _with(sound, "{every: 500ms}", f"{{every: {duration}}}"), "batch.every"
    yield _with(sound, "${ENDMARK_RELATION_URL}", "${NOBODY_SETS_THIS}"), "line "
    yield _with(sound, "> 0\n", "> 0 +\n"), "steps.matched.where"
    yield _with(sound, "> 0\n", f"> {' + '.join(['bids_seller_id'] * 900)}\n"), "steps.matched.where"
    yield _with(sound, "seller_id + 9223372036854775800", "prize"), "closes.when"


def _with(text: str, old: str, new: str) -> bytes:
    assert text.count(old) == 1, old
    return text.replace(old, new).encode()


def pipeline_files(chance: Random, sound: str, count: int) -> Iterator[bytes]:
    """So many texts that somebody could give as a pipeline file."""
    document = yaml.safe_load(sound)
    for _ in range(count):
        if chance.random() < 0.5:
            yield mutated(chance, sound.encode(), [b"&a ", b"*a", b"!!python/name:os", b"${X}", b"\t", b"- "])
        else:
            yield yaml.safe_dump(_replaced(chance, document)).encode()


def _replaced(chance: Random, tree: Any) -> Any:
    """The document with one of its values replaced."""
    if isinstance(tree, dict) and tree and chance.random() < 0.8:
        name = chance.choice(list(tree))
        return tree | {name: _replaced(chance, tree[name])}
    return chance.choice(_VALUES)
