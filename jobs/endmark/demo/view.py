"""The terminal view of a running demo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.table import Table

from endmark.control.description import Description
from endmark.metrics import Samples, sample, total

if TYPE_CHECKING:
    from endmark.control.database import OpsDatabase

_ALL = 1_000_000  # batches of a demo, of which none lasts for days


@dataclass
class DemoState:
    """The sources of the view's numbers.

    Args:
        pipeline: the pipeline's name.
        url: the dashboard's URL.
        ops: the ops database.
        fed: the number of records that the feed has sent.
    """

    pipeline: str
    url: str
    ops: OpsDatabase
    fed: int = 0


def live_view(state: DemoState) -> Table:
    """Return a small table of the job's totals and state."""
    table = Table.grid(padding=(0, 1))
    for _ in range(4):
        table.add_column(justify="right", min_width=8, no_wrap=True)
        table.add_column(style="dim", no_wrap=True)
    batch = state.ops.latest_batch(state.pipeline)
    run = state.ops.latest_run(state.pipeline)
    totals = batch.totals if batch else {}
    seconds = totals.get("batch_seconds{phase=total}", 0.0)
    table.add_row(f"{state.fed:,}", "fed", _sum(totals, "records_total"), "read", "", "", "", "")
    table.add_row(
        _sum(totals, "join_results_total"),
        "joined",
        _sum(totals, "groups_closed_total"),
        "groups final",
        _sum(totals, "dead_letters_total"),
        "dead letters",
        _sum(totals, "violations_total"),
        "violations",
    )
    table.add_row(
        _sum(totals, "state_rows", operator="join"),
        "live rows",
        _sum(totals, "join_purged_rows_total"),
        "purged",
        _sum(totals, "join_dropped_rows_total"),
        "never stored",
        _sum(totals, "join_invalidated_rows_total"),
        "out of window",
    )
    table.add_row(
        f"{batch.batch_id + 1:,}" if batch else "0",
        "batches",
        f"{seconds:.2f} s",
        "last batch",
        _sum(totals, "lookup_reads_total"),
        "lookup reads",
        run["state"] if run else "starting",
        "job",
    )
    return table


def lookup_lines(state: DemoState) -> list[str]:
    """Say of each lookup what it has read, and how many rows have waited for it at most."""
    batches = state.ops.batches_after(state.pipeline, -1, _ALL)
    description = state.ops.description(state.pipeline)
    if not batches or description is None:
        return []
    described = Description.model_validate(description)
    lines = []
    for lookup in described.lookups:
        pages, lists = (
            batches[-1].totals.get(sample("lookup_reads_total", relation=lookup.relation, by=by), 0.0)
            for by in ("page", "list")
        )
        waiting = sample("lookup_pending_rows", relation=lookup.relation)
        most = max(batch.samples.get(waiting, 0.0) for batch in batches)
        lines.append(
            f"lookup in {lookup.relation}, strategy {described.fields[lookup.place]['strategy']}: "
            f"{pages:,.0f} pages and {lists:,.0f} lists of keys read, at most {most:,.0f} rows waiting"
        )
    return lines


def _sum(totals: Samples, name: str, **labels: str) -> str:
    return f"{total(totals, name, **labels):,.0f}"
