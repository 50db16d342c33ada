"""Tables of the newest rows of a stream: which there may be."""

from __future__ import annotations

import re
from typing import Any

import pytest

from endmark.pipeline import Pipeline
from support.change_stream import replica
from support.verify_world import make_pipeline


def with_stream(document: dict[str, Any], **fields: Any) -> dict[str, Any]:
    document["streams"]["changes"] |= fields
    return document


def with_step(document: dict[str, Any], step: dict[str, Any]) -> dict[str, Any]:
    document["steps"]["last"] = {"from": "changes", **step}
    document["tables"]["now"]["from"] = "last"
    return document


def test_the_key_of_the_table_is_that_of_its_stream() -> None:
    document = with_stream(replica(), format="json", updates="dead_letter")
    pipeline = Pipeline.model_validate(document)

    assert pipeline.last_stage.named_key == ("tables.now.key", ("customer_id",))
    assert pipeline.outputs.key_of("latest:changes") == ("changes_customer_id",)
    assert not pipeline.outputs.shows_results


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (
            replica(key=[]),
            "tables.now.key: name the columns by which a row of changes replaces an earlier one",
        ),
        (replica(key="number"), "tables.now.key: no column 'number'; there are customer_id"),
        (
            replica(key="name"),
            "tables.now.key: column 'name' may be null, which is no key; declare it string",
        ),
        (
            replica(key="seller_id", closing=True),
            "streams.changes.punctuated_on: a deletion names these columns, and removes the row",
        ),
        (
            with_stream(replica(), columns={"customer_id": "double", "seller_id": "long", "at": "timestamp"}),
            "tables.now.key: column 'customer_id' is double",
        ),
        (with_stream(replica(), updates="dead_letter"), "streams.changes.updates: an update would be a dead"),
        (with_stream(replica(), punctuation_scope="topic"), "streams.changes.punctuation_scope: a key of an"),
        (
            with_step(replica(key="spelled"), {"derive": {"spelled": "'c' || customer_id"}}),
            "'spelled' may be null, which is no key; it is derived, so name a column of streams.changes",
        ),
        (
            with_step(replica(), {"where": "seller_id > 1"}),
            "tables.now: steps.last.where leaves out rows of changes",
        ),
        (
            with_step(replica(), {"deduplicate": {"by": "customer_id"}}),
            "tables.now: steps.last.deduplicate drops rows of changes, and the table would keep",
        ),
        (
            replica(mode="changes"),
            "tables.now.mode: changes is for the groups of an aggregate",
        ),
        (
            replica(mode="append"),
            "tables.now.key: it is for mode: upsert of a stream, a row step or a lookup; leave it out",
        ),
        (
            replica(partition_by="changes_customer_id", cluster_by="changes_at"),
            "tables.now.cluster_by: leave it out, or choose mode: append, whose files can be sorted",
        ),
    ],
)
def test_what_cannot_be_is_refused(document: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        Pipeline.model_validate(document)


def test_a_lookup_loses_no_row() -> None:
    document = replica(looked_up=True)
    document["steps"]["known"]["lookup"]["miss"] = "drop"
    with pytest.raises(
        ValueError, match=r"tables\.now: lookup known may lose or repeat rows of changes, and the"
    ):
        Pipeline.model_validate(document)
    document["tables"]["now"]["from"] = "changes"
    assert Pipeline.model_validate(document)


def test_the_join_has_the_same_key() -> None:
    document = make_pipeline().model_dump(by_alias=True)
    document["tables"]["now"] = {"from": "items", "mode": "upsert", "key": "seller_id"}
    with pytest.raises(ValueError, match=r"tables.now.key: seller_id is not item_id of steps.matched.on, by"):
        Pipeline.model_validate(document)
    document["tables"]["now"] = {"from": "matched", "mode": "upsert", "key": "item_id"}
    with pytest.raises(
        ValueError, match=r"tables.now.mode: upsert is for the groups of an aggregate; rows of"
    ):
        Pipeline.model_validate(document)
