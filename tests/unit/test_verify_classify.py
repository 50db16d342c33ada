"""Rows, punctuations and dead letters are told apart as the definitions say, however odd the bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endmark.verify.classify import classify
from endmark.verify.run import load_records
from endmark.verify.session import Session
from support.payloads import ALIVE, DEAD, PIPELINE, mutants
from support.verify_oracle import fate
from support.verify_world import close, make_pipeline, raw, to_kafka


def fates(values: list[bytes | None]) -> list[Any]:
    """What DuckDB makes of bids with these values: columns of a row, a closed key, or `dead letter`."""
    found: dict[int, Any] = {}
    with Session() as session:
        load_records(session, *to_kafka([raw("bids", value) for value in values]))
        classify(session, PIPELINE)
        for row in session.run('SELECT "offset", value FROM expected_dead_letters'):
            assert row["value"] == values[row["offset"]]
            found[row["offset"]] = "dead letter"
        for row in session.run('SELECT "offset", key FROM promises_bids'):
            assert row["offset"] not in found
            found[row["offset"]] = row["key"]
        for row in session.run("SELECT * FROM rows_bids"):
            assert row["bids_kafka_offset"] not in found
            columns = {name: row[f"bids_{name}"] for name in PIPELINE.streams["bids"].columns}
            found[row["bids_kafka_offset"]] = columns
    return [found[offset] for offset in range(len(values))]


def test_nasty_values_are_dead_letters() -> None:
    """Every value that is no row and no punctuation by the definitions is a dead letter, bytes kept."""
    found = dict(zip(DEAD, fates(list(DEAD.values())), strict=True))
    assert found == dict.fromkeys(DEAD, "dead letter")


def test_odd_but_sound_values_live() -> None:
    """What JSON and the declared types allow is read, with exactly the value that was written."""
    found = fates([value for value, _ in ALIVE.values()])
    for (case, (_, expected)), actual in zip(ALIVE.items(), found, strict=True):
        if isinstance(expected, dict):
            assert isinstance(actual, dict), case
            assert expected == {member: actual[member] for member in expected}, case
        else:
            assert actual == expected, case


@pytest.mark.parametrize("case", [*DEAD, *ALIVE])
def test_oracle_agrees_on_every_case(case: str) -> None:
    """The plain Python reading that other tests lean on has the same opinion of each listed value."""
    found = fate(PIPELINE.streams["bids"], DEAD[case] if case in DEAD else ALIVE[case][0])
    assert (found == "dead letter") == (case in DEAD)


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


@settings(max_examples=60, deadline=None)
@given(st.lists(mutants(), min_size=1, max_size=60))
def test_mutants_meet_the_same_fate_as_in_python(values: list[bytes]) -> None:
    """DuckDB's reading and a strict Python reading agree on every mutation of a sound value."""
    stream = PIPELINE.streams["bids"]
    assert fates(list(values)) == [fate(stream, value) for value in values]
