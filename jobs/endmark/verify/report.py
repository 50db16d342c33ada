"""The report of a verification: as JSON for programs, and as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, computed_field
from rich import box
from rich.table import Table
from rich.text import Text

SHOWN_CHARACTERS = 80


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True)


class TopicCounts(_Model):
    """The counts of a topic's records.

    `records` is the sum of `processed`, `dead_letters`, `filtered` and all `violations`. `skipped` counts
    tombstones and deletions without effect, which are processed, too.
    """

    topic: str
    records: int
    rows: int
    punctuations: int
    dead_letters: int
    violations: dict[str, int]
    processed: int
    filtered: int = 0
    skipped: int = 0
    lookup_missed: int


class Difference(_Model):
    """A row that a table has `times` times too often or too rarely."""

    kind: Literal["missing", "unexpected"]
    times: int
    row: dict[str, Any]


class _Comparison(_Model):
    """The comparison of a table or topic with its recomputation, as multisets of rows.

    `examples` has the first differences. A table or topic that is younger than its checkpoint has its
    `first_batch`, and may lack rows. It is not `compared` if its rows depend on more than the records say.
    Its numbers are 0 then, and `equal` is not known.
    """

    expected: int
    actual: int
    missing: int
    unexpected: int
    problem: str | None = None
    first_batch: int = 0
    compared: bool = True
    examples: list[Difference]

    @property
    def differs(self) -> bool:
        return bool(self.missing or self.unexpected or self.problem)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def equal(self) -> bool | None:
        return None if not self.compared and not self.differs else not self.differs


class TableComparison(_Comparison):
    """A Delta table compared with its recomputation. `table` is its name in the pipeline file."""

    table: str


class TopicComparison(_Comparison):
    """A published topic compared with its recomputation.

    `records` is the number of its records. `actual` counts no repeats, no earlier states of groups, and an
    output punctuation once. `lacks` is the number of offsets that have no record any more. If rows may be
    among these, `missing` is 0.
    """

    topic: str
    records: int
    lacks: int = 0


class Breach(_Model):
    """A broken rule: the rule in words, how often it was broken, and the first cases."""

    rule: str
    times: int
    examples: list[dict[str, Any]]


class SkippedOffsets(_Model):
    """The offsets of one partition, without `end`, that the job has skipped since Kafka had dropped them."""

    topic: str
    partition: int
    first: int
    end: int


class VerifyReport(_Model):
    """The outcome. `equal` is about tables and published topics, `conserved` is about records.

    `ok` means both. Tables and topics lack the records of `gaps`. No comparison sees that, since Kafka does
    not hold them either.
    """

    pipeline: str
    seconds: float
    topics: list[TopicCounts]
    tables: list[TableComparison]
    published: list[TopicComparison] = []
    breaches: list[Breach]
    gaps: list[SkippedOffsets] = []

    @computed_field  # type: ignore[prop-decorator]
    @property
    def equal(self) -> bool:
        return not any(each.differs for each in (*self.tables, *self.published))

    @computed_field  # type: ignore[prop-decorator]
    @property
    def conserved(self) -> bool:
        return not self.breaches

    @computed_field  # type: ignore[prop-decorator]
    @property
    def ok(self) -> bool:
        return self.equal and self.conserved

    def to_json(self) -> str:
        return self.model_dump_json(indent=2)


def render(report: VerifyReport) -> Table:
    """Return the report as a grid: counts and comparisons, then the differences if any, then the verdict."""
    grid = Table.grid(padding=(0, 0, 1, 0))
    grid.add_row(_render_topics(report.topics))
    grid.add_row(_render_tables(report.tables))
    if report.published:
        grid.add_row(_render_published(report.published))
    for trouble in _troubles(report):
        grid.add_row(trouble)
    grid.add_row(_verdict(report))
    return grid


def _render_topics(topics: list[TopicCounts]) -> Table:
    # Each topic is a column, since a terminal of 80 columns has no room for every reason of a violation.
    table = _table("Records in Kafka", "")
    for topic in topics:
        table.add_column(topic.topic, justify="right", min_width=9, overflow="fold")
    reasons = dict.fromkeys(reason for topic in topics for reason in topic.violations)
    counts: dict[str, list[int]] = {
        "records": [topic.records for topic in topics],
        "processed": [topic.processed for topic in topics],
        **({"filtered": filtered} if any(filtered := [topic.filtered for topic in topics]) else {}),
        "dead letters": [topic.dead_letters for topic in topics],
        **{reason: [topic.violations.get(reason, 0) for topic in topics] for reason in reasons},
        "punctuations": [topic.punctuations for topic in topics],
        "no match": [topic.lookup_missed for topic in topics],
    }
    for heading, each in counts.items():
        table.add_row(heading, *(f"{count:,}" for count in each))
    return table


def _render_tables(tables: list[TableComparison]) -> Table:
    table = _table("Delta tables against their recomputation", "table")
    for heading in ("recomputed", "in Delta", "missing", "unexpected"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for each in tables:
        counts = (each.expected, each.actual, each.missing, each.unexpected)
        table.add_row(each.table, *_shown(counts, each), _found(each))
    return table


def _render_published(topics: list[TopicComparison]) -> Table:
    table = _table("Published topics against their recomputation", "topic")
    for heading in ("recomputed", "in Kafka", "missing", "unexpected", "records"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for each in topics:
        counts = (each.expected, each.actual, each.missing, each.unexpected)
        lacks = f", lacks {each.lacks:,} records" if each.lacks else ""
        table.add_row(each.topic, *_shown(counts, each), f"{each.records:,}", _found(each, lacks))
    return table


def _shown(counts: Sequence[int], found: _Comparison) -> list[str]:
    return [f"{count:,}" if found.compared or found.differs else "-" for count in counts]


def _found(found: _Comparison, lacks: str = "") -> Text:
    since = f" since batch {found.first_batch}" if found.first_batch else ""
    if found.differs:
        return Text(f"differs{since}{lacks}", "bold red")
    if not found.compared:
        return Text(f"not compared{lacks}", "yellow")
    return Text(f"equal{since}{lacks}", "yellow" if lacks else "green")


def _table(title: str, first: str) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    table.add_column(first, min_width=8, overflow="fold")
    return table


def _troubles(report: VerifyReport) -> list[Text]:
    found = []
    compared: list[tuple[str, _Comparison]] = [
        *((f"Table {each.table}", each) for each in report.tables),
        *((f"Topic {each.topic}", each) for each in report.published),
    ]
    for named, one in compared:
        if one.problem:
            found.append(_trouble(f"{named} {one.problem}", []))
        if one.examples:
            lines = [f"{each.kind} {_times(each.times)}{_line(each.row)}" for each in one.examples]
            found.append(_trouble(f"{named}, first differences:", lines))
    for breach in report.breaches:
        lines = [_line(example) for example in breach.examples]
        found.append(_trouble(f"{breach.times:,} x {breach.rule}:", lines))
    return found


def _trouble(heading: str, lines: list[str]) -> Text:
    return Text.assemble((heading, "bold red"), *(f"\n  {line}" for line in lines))


def _times(times: int) -> str:
    return f"{times:,} times " if times > 1 else ""


def _line(row: dict[str, Any]) -> str:
    # `repr` escapes values, since a record may hold control sequences of terminals.
    return ", ".join(f"{column}={_shortened(repr(value))}" for column, value in row.items())


def _shortened(value: str) -> str:
    return value if len(value) <= SHOWN_CHARACTERS else value[: SHOWN_CHARACTERS - 3] + "..."


def _gap(gap: SkippedOffsets) -> str:
    return f"offsets {gap.first} to {gap.end - 1} of {gap.topic}/{gap.partition}"


def _verdict(report: VerifyReport) -> Text:
    records = sum(topic.records for topic in report.topics)
    read = f"{records:,} records, recomputed in {report.seconds:.1f} s"
    if report.gaps:
        read += f"; the job has skipped {', '.join(map(_gap, report.gaps))}, which Kafka had dropped"
    named: dict[str, list[tuple[str, _Comparison]]] = {
        "tables": [(each.table, each) for each in report.tables],
        "topics": [(each.topic, each) for each in report.published],
    }
    uncompared = [name for pairs in named.values() for name, each in pairs if not each.compared]
    if uncompared:
        read += f"; not compared: {', '.join(uncompared)}"
    lacking = [topic.topic for topic in report.published if topic.lacks]
    if lacking:
        read += f"; Kafka has dropped records of: {', '.join(lacking)}"
    if report.ok:
        return Text.assemble(("Everything adds up. ", "bold green"), read)
    said = []
    for kind, pairs in named.items():
        wrong = [name for name, each in pairs if each.differs]
        if pairs:
            said.append(f"{kind} that differ: {', '.join(wrong)}" if wrong else f"all {kind} equal")
    said.append("all records conserved" if report.conserved else "records not conserved")
    return Text.assemble(("This does not add up: ", "bold red"), f"{'; '.join(said)}. {read}")
