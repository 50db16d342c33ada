"""Tests of the report of `verify` on filtered and failing rows."""

from __future__ import annotations

from rich.console import Console

from endmark.verify.compare.tables import count_topics
from endmark.verify.report import VerifyReport, render
from support.verify_recompute import recomputed, rows_of
from support.verify_steps import with_row_step
from support.verify_world import bid, item, make_pipeline


def test_filtered_and_failing_rows_are_counted() -> None:
    """Each record has one fate, and filtered ones have a column of their own in the report."""
    pipeline = with_row_step(
        make_pipeline(),
        "bids",
        where="seller_id <> 2",
        derive={"bounded": "seller_id + 9223372036854775804"},
    )
    records = [item(0, 0), bid(0, 0), bid(0, 1, seller=2), bid(0, 2, seller=4), bid(0, 3, seller=2)]

    with recomputed(pipeline, records) as session:
        _, bids = topics = count_topics(session, pipeline)
        letters = rows_of(session, "dead_letters")

    assert (bids.records, bids.processed, bids.filtered, bids.dead_letters) == (4, 1, 2, 1)
    assert bids.violations == {"closed": 0, "late": 0}
    assert [row[:3] + row[4:] for row in letters] == [("all.bids", 0, 2, "expression")]
    report = VerifyReport(pipeline="small", seconds=1, topics=topics, tables=[], breaches=[])
    assert "filtered" in _shown(report)
    without = [topic.model_copy(update={"filtered": 0}) for topic in topics]
    assert "filtered" not in _shown(report.model_copy(update={"topics": without}))


def _shown(report: VerifyReport) -> str:
    console = Console(width=120)
    with console.capture() as captured:
        console.print(render(report))
    return captured.get()
