"""Rows, punctuations and dead letters are told apart as the definitions say, however odd the bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endmark.pipeline import Stream
from endmark.verify.judge.classify import classify
from endmark.verify.session import Session
from endmark.verify.verification import load_records
from support.numbers import LIMITS
from support.payload_mutants import mutants
from support.payloads import IGNORING, IN_NUMBERS, LISTED, MANY_KEYS, PIPELINE, STREAMS, WITH_GAPS
from support.verify_fates import Promise, fate
from support.verify_keys import KeyKind
from support.verify_places import to_kafka
from support.verify_world import close, make_pipeline, promise, raw

PIPELINES = {
    "one key": PIPELINE,
    "many keys": MANY_KEYS,
    "gaps": WITH_GAPS,
    "extra members": IGNORING,
    "numbers": IN_NUMBERS,
}


def fates(stream: str, values: list[bytes | None]) -> list[Any]:
    """What DuckDB makes of bids with these values: columns of a row, a closed key, `promise` for other
    punctuations, or `dead letter`."""
    pipeline = PIPELINES[stream]
    found: dict[int, Any] = {}
    with Session() as session:
        load_records(session, *to_kafka([raw("bids", value) for value in values]))
        classify(session, pipeline)
        for row in session.run('SELECT "offset", value FROM expected_dead_letters'):
            assert row["value"] == values[row["offset"]]
            found[row["offset"]] = "dead letter"
        for row in session.run('SELECT "offset" FROM punctuations_bids'):
            assert row["offset"] not in found
            found[row["offset"]] = "promise"
        for row in session.run(
            'SELECT * FROM promises_bids QUALIFY count(*) OVER (PARTITION BY "offset") = 1'
        ):
            assert found[row["offset"]] == "promise"
            found[row["offset"]] = tuple(row[f"#{name}"] for name in pipeline.key)
        for row in session.run("SELECT * FROM rows_bids"):
            assert row["bids_kafka_offset"] not in found
            columns = {name: row[f"bids_{name}"] for name in pipeline.streams["bids"].columns}
            found[row["bids_kafka_offset"]] = columns
    return [found[offset] for offset in range(len(values))]


def plain(stream: Stream, value: bytes | None) -> Any:
    """As `fates` tells it."""
    found = fate(stream, value)
    if not isinstance(found, Promise):
        return found
    named = found.named(stream.punctuated_on)
    return named[0] if len(named) == 1 else "promise"


@pytest.mark.parametrize("stream", STREAMS)
def test_nasty_values_are_dead_letters(stream: str) -> None:
    """Every value that is no row and no punctuation by the definitions is a dead letter, bytes kept."""
    _, dead, _ = STREAMS[stream]
    found = dict(zip(dead, fates(stream, list(dead.values())), strict=True))
    assert found == dict.fromkeys(dead, "dead letter")


@pytest.mark.parametrize("stream", STREAMS)
def test_odd_but_sound_values_live(stream: str) -> None:
    """What JSON and the declared types allow is read, with exactly the value that was written."""
    _, _, alive = STREAMS[stream]
    found = fates(stream, [value for value, _ in alive.values()])
    for (case, (_, expected)), actual in zip(alive.items(), found, strict=True):
        if isinstance(expected, dict):
            assert isinstance(actual, dict), case
            assert expected == {member: actual[member] for member in expected}, case
        else:
            assert actual == expected, case


@pytest.mark.parametrize(("stream", "case"), LISTED)
def test_oracle_agrees_on_every_case(stream: str, case: str) -> None:
    """The plain Python reading that other tests lean on has the same opinion of each listed value."""
    declared, dead, _ = STREAMS[stream]
    assert (fate(declared, LISTED[stream, case]) == "dead letter") == (case in dead)


def test_a_stream_that_makes_no_promises_has_none() -> None:
    """A punctuation of a stream without `punctuated_on` is a dead letter."""
    pipeline = make_pipeline(punctuated=(True, False))
    with Session() as session:
        load_records(session, *to_kafka([close("bids", 1), close("items", 1)]))
        classify(session, pipeline)
        assert [row["topic"] for row in session.run("SELECT topic FROM expected_dead_letters")] == [
            "all.bids"
        ]
        assert session.count("promises_bids") == 0
        assert session.count("promises_items") == 1


def test_a_key_of_one_number_is_judged_as_its_column_spells_it() -> None:
    """A number that no `int` is names no key. It named one if the key was this column alone."""
    pipeline = make_pipeline(keys=KeyKind({"item_id": "int"}, lambda n: {"item_id": n}))
    least, greatest = LIMITS["int"]
    numbers = [least - 1, least, greatest, greatest + 1]
    patterns: list[dict[str, Any]] = [{"equals": number} for number in numbers]
    patterns += [{"one_of": [number]} for number in numbers]
    records = [promise("bids", {"item_id": pattern}, 0) for pattern in patterns]
    with Session() as session:
        load_records(session, *to_kafka(records))
        classify(session, pipeline)
        dead = session.run('SELECT "offset" FROM expected_dead_letters ORDER BY ALL')
        named = session.run("SELECT * FROM promises_bids ORDER BY ALL")

    assert [row["offset"] for row in dead] == [0, 3, 4, 7]
    assert [row["#item_id"] for row in named] == [least, greatest, least, greatest]


@settings(max_examples=12, deadline=None)
@given(st.lists(mutants("one key"), min_size=1, max_size=60))
def test_mutants_meet_the_same_fate_as_in_python(values: list[bytes]) -> None:
    """DuckDB's reading and a strict Python reading agree on every mutation of a sound value."""
    stream = PIPELINE.streams["bids"]
    assert fates("one key", list(values)) == [plain(stream, value) for value in values]


@pytest.mark.parametrize("stream", ["gaps", "extra members", "numbers"])
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_mutants_of_other_streams_meet_the_same_fate_as_in_python(stream: str, data: st.DataObject) -> None:
    """They agree where columns may be null, members are ignored or times are numbers."""
    values = data.draw(st.lists(mutants(stream), min_size=1, max_size=60))
    declared = PIPELINES[stream].streams["bids"]
    assert fates(stream, list(values)) == [plain(declared, value) for value in values]


@settings(max_examples=12, deadline=None)
@given(st.lists(mutants("many keys"), min_size=1, max_size=60))
def test_mutants_of_long_punctuations_meet_the_same_fate_as_in_python(values: list[bytes]) -> None:
    """They agree where a punctuation names a value of many columns."""
    stream = MANY_KEYS.streams["bids"]
    assert fates("many keys", list(values)) == [plain(stream, value) for value in values]
