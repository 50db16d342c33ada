"""The workloads of the examples: equal for equal seeds, in order, and what their pipelines declare."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy as sa

from endmark.engine.streams import stream_plans
from endmark.errors import ConfigError
from endmark.pipeline import Pipeline
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION
from endmark_feed.examples import EXAMPLES, run_example
from endmark_feed.message import DEAD_LETTERS, VIOLATIONS, Kind


def pipeline(name: str, url: str = "sqlite://") -> Pipeline:
    return load(AUCTION.with_name(f"{name}.yaml"), {"ENDMARK_RELATION_URL": url})


@pytest.mark.parametrize("name", EXAMPLES)
def test_records_are_those_of_the_pipeline(name: str) -> None:
    """Each is what its stream takes it for, a key's are in one partition, and times never go back."""
    example, declared = EXAMPLES[name], pipeline(name)
    messages = list(example.messages(7, 6.0, 1_000.0))
    plans = stream_plans(declared, dict(example.partitions))

    assert messages == list(example.messages(7, 6.0, 1_000.0)) != list(example.messages(8, 6.0, 1_000.0))
    assert 5_000 < len(messages) < 7_000
    assert [each.due_seconds for each in messages] == sorted(each.due_seconds for each in messages)
    assert messages[-1].due_seconds < 12
    places: dict[tuple[str, bytes], set[int]] = {}
    for each in messages:
        places.setdefault((each.topic, each.key), set()).add(each.partition)
    assert all(len(found) == 1 for found in places.values())
    for plan in plans.values():
        mine = [each for each in messages if each.topic == plan.topic]
        values = [each.value for each in mine if each.kind is not Kind.TOMBSTONE]
        assert plan.parser is not None
        parsed = plan.parser().parse(pa.array(values, pa.binary()))
        kinds = Counter(each.kind for each in mine)
        unreadable = sum(kinds[kind] for kind in DEAD_LETTERS)
        updates = sum(each.reason == "update" for each in parsed.rejections)
        assert len(parsed.rejections) == unreadable + updates
        assert parsed.rows.num_rows + updates == sum(kinds[kind] for kind in (Kind.ROW, *VIOLATIONS))
        assert (parsed.closed_keys.num_rows, parsed.skipped) == (kinds[Kind.PUNCTUATION], 0)
        assert {each.partition for each in mine} == set(range(example.partitions[plan.topic]))


@pytest.mark.parametrize("name", EXAMPLES)
def test_tables_are_those_of_the_pipeline(name: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'r.db'}"
    assert EXAMPLES[name].fill(url, 1) > 0
    assert EXAMPLES[name].fill(url, 1) == 0
    engine = sa.create_engine(url)
    inspector = sa.inspect(engine)
    for relation in pipeline(name, url).relations.values():
        assert [column["name"] for column in inspector.get_columns(relation.table)] == list(relation.columns)
        assert inspector.get_pk_constraint(relation.table)["constrained_columns"] == list(relation.key)
    engine.dispose()


@pytest.mark.parametrize(("minutes", "rate"), [(0.0, 1.0), (1.0, float("nan")), (1.0, 300_000.0)])
def test_numbers_out_of_range_are_refused(minutes: float, rate: float) -> None:
    with pytest.raises(ConfigError, match=r"of a feed is .*; choose a number from"):
        run_example("news", "nowhere:1", 1, minutes, rate, "fast")
