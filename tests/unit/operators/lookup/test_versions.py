"""R as it was at the time of a row: the newest version that is not newer, or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from endmark.embedded.mariadb import MariaDb
from endmark.operators.lookup.reader import Answer, DuplicateKeyError
from endmark.operators.lookup.versions import Versions
from endmark.pipeline import Pipeline
from support.relations import Database
from support.verify_world import make_pipeline

TIME = pa.timestamp("us", "UTC")
VERSIONS = Versions("at", "since")


def pick(times: Sequence[int | None], since: list[int | None]) -> dict[int, int]:
    """The versions that rows of one key meet, by their positions."""
    rows = pa.record_batch({"at": pa.array(times, TIME)})
    block = pa.record_batch({"since": pa.array(since, TIME)})
    i, j = (each.ravel() for each in np.indices((len(times), len(since))))
    pieces = [(i[::2], j[::2]), (i[1::2], j[1::2])]
    found = VERSIONS.pick(rows, Answer(np.arange(len(times)), np.ones(len(times), bool), pieces, block))
    [(rows_met, versions)] = found.pairs
    assert np.flatnonzero(found.found).tolist() == rows_met.tolist()
    return dict(zip(rows_met.tolist(), versions.tolist(), strict=True))


def test_each_row_meets_the_newest_version_that_is_not_newer() -> None:
    """A version holds from its very moment on; one without a moment never does."""
    assert pick([5, 4, 9, 10, 99], [10, 5, None, 7]) == {0: 1, 2: 3, 3: 0, 4: 0}
    assert pick([4], [10, 5]) == {}
    assert pick([None, 9], [5, None]) == {1: 0}, "a row without a time meets none"
    assert pick([], [1]) == pick([1], []) == pick([1], [None]) == {}


def test_two_versions_of_one_moment_are_refused() -> None:
    """Unless no row would meet them."""
    with pytest.raises(DuplicateKeyError, match="two versions of a key from one moment on"):
        pick([4, 7], [6, 6, 3])
    assert pick([5, 8], [6, 6, 3, 7]) == {0: 2, 1: 3}


@pytest.mark.parametrize("where", ["sqlite", "mariadb", "mysql"])
def test_a_table_with_two_versions_of_one_moment(request: pytest.FixtureRequest, where: str) -> None:
    """Is refused at the start, as is one with two rows of a key without versions."""
    url = "sqlite:///" + str(request.getfixturevalue("tmp_path") / "r.db")
    if where != "sqlite":
        server: MariaDb = request.getfixturevalue(where)
        url = server.url
    database = Database(url)
    rows = [(1, "2026-01-01 00:00:00"), (1, "2026-01-02 00:00:00")]
    database.create("versions", "k BIGINT, since DATETIME", rows)
    database.run("CREATE INDEX by_k ON versions (k, since)")
    reader = database.reader("versions", "k", k="long", since="timestamp")
    reader.check(versions="since")
    with pytest.raises(Exception, match="key k=1 occurs 2 times"):
        reader.check()
    database.run("INSERT INTO versions VALUES (1, '2026-01-02 00:00:00')")
    with pytest.raises(Exception, match=r"key k=1, since=.* occurs 2 times"):
        reader.check(versions="since")


@pytest.mark.parametrize(
    ("looking", "said"),
    [
        ({"as_of": {"stream": "price", "relation": "since"}}, "steps.known.lookup.as_of.stream"),
        ({"as_of": {"stream": "bid_at", "relation": "name"}}, "steps.known.lookup.as_of.relation"),
        (
            {"as_of": {"stream": "bid_at", "relation": "since"}, "cardinality": "many_to_many"},
            "as_of picks one of a key's rows",
        ),
    ],
)
def test_what_has_no_versions_is_refused(looking: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make_pipeline(looking=looking)


def test_a_key_may_not_tell_versions_apart() -> None:
    """It would be looked up by its value, not by its order."""
    document = make_pipeline(looking={"as_of": {"stream": "bid_at", "relation": "since"}}).model_dump()
    document["relations"]["sellers"]["key"] = ["seller_id", "since"]
    document["steps"]["known"]["lookup"]["key"] = ["seller_id", "bid_at"]
    with pytest.raises(ValueError, match="each version would have a key of its own"):
        Pipeline.model_validate(document)
