"""Compares published topics with the recomputation, and checks the order of their records.

Kafka gets each batch at least once, so a topic may have equal records of one batch. A topic that has dropped
records may lack rows, and only the rows that are left are compared.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from endmark.pipeline import Pipeline
from endmark.pipeline.groups import ResultGroups
from endmark.pipeline.tables import is_group_role, is_running_role
from endmark.verify.breach import EXAMPLES, readable
from endmark.verify.compare.published_order import check_order, check_partitions
from endmark.verify.compare.tables import Differences, differences, uncertain_table
from endmark.verify.groups.running_groups import check_published_running, keep_last_published, sure_groups
from endmark.verify.read.added_columns import NOTHING_ADDED, AddedColumns
from endmark.verify.read.consume import Range
from endmark.verify.read.published_records import read_published
from endmark.verify.report import Breach, Difference, TopicComparison
from endmark.verify.session import Session, fill, name, names

# A row may be due several times, if R has equal rows, and each of them is a record. Records of one batch may
# be repeats of each other, but those of two batches are two rows.
_ONCE = """
CREATE TABLE $once AS SELECT $columns FROM (
    SELECT $columns,
        unnest(range(greatest(least(sum("#came"), sum("#due")), count(DISTINCT "#batch"))::BIGINT))
    FROM (
        SELECT $columns, "#batch", 1 AS "#came", 0 AS "#due" FROM $published g WHERE $sure
        UNION ALL SELECT $columns, NULL, 0, 1 FROM $expected
        UNION ALL SELECT $columns, NULL, 0, 1 FROM $uncertain
    ) GROUP BY $columns
)
"""

_CHANGES = 'CREATE TABLE $changes AS SELECT DISTINCT $columns, "#batch" FROM $published'

_SAID = "CREATE OR REPLACE TABLE said_once AS SELECT DISTINCT punctuation FROM $said"

# A text may be due several times in the table of punctuations, and whoever reads a topic needs it once.
_DUE = """
CREATE OR REPLACE TABLE due_once AS
SELECT punctuation FROM announced_patterns UNION SELECT punctuation FROM announced_keys WHERE required
"""

_PERHAPS = """
CREATE OR REPLACE TABLE perhaps_once AS
SELECT punctuation FROM announced_keys UNION SELECT punctuation FROM uncertain_punctuations
"""


@dataclass(frozen=True)
class Published:
    """A published topic.

    Args:
        topic: its name.
        role: the kind of its rows.
        first_batch: the first batch that it got.
        records: the number of its records.
        begins_late: whether a partition has dropped its first record.
        lacks: the number of its offsets that have no record any more.
    """

    topic: str
    role: str
    first_batch: int
    records: int
    begins_late: bool
    lacks: int

    @property
    def may_lack(self) -> bool:
        """True if rows may be missing. Compaction keeps the newest record of each group."""
        return self.first_batch > 0 or self.begins_late or (self.lacks > 0 and not is_group_role(self.role))


def load_published(
    session: Session,
    pipeline: Pipeline,
    ranges: Sequence[Range],
    first_batches: Mapping[str, int],
    app_id: str | None,
    added: AddedColumns = NOTHING_ADDED,
) -> list[Published]:
    """Read the topics that a pipeline publishes to. One that does not exist has no records.

    Args:
        session: the session that has the `records` of the topics.
        pipeline: the pipeline.
        ranges: the offsets that Kafka holds.
        first_batches: the first batch of each topic that is younger than its checkpoint, by topic.
        app_id: the id of the checkpoint; `None` for any.
        added: the columns that are younger than the checkpoint.
    """
    found = []
    younger = {
        f"{pipeline.flow.taker_of(stream)}_{column}"
        for stream in pipeline.streams
        for column in added.columns(stream)
    }
    for role, topic in pipeline.outputs.topics.items():
        read_published(session, pipeline, role, topic, app_id, younger)
        (counted,) = session.run("SELECT count(*) AS n FROM records WHERE topic = ?", [topic])
        held = [each for each in ranges if each.topic == topic]
        found.append(
            Published(
                topic,
                role,
                first_batches.get(topic, 0),
                counted["n"],
                any(each.first > 0 for each in held),
                sum(each.end for each in held) - counted["n"],
            )
        )
    return found


def compare_topics(
    session: Session, pipeline: Pipeline, published: Sequence[Published], uncompared: Collection[str]
) -> list[TopicComparison]:
    """Compare the topics that a pipeline publishes to with the expected rows and output punctuations.

    Args:
        session: the session that has both.
        pipeline: the pipeline.
        published: the topics.
        uncompared: the kinds of rows that are uncertain, and so are not compared.
    """
    return [_compare(session, pipeline, each, compared=each.role not in uncompared) for each in published]


def check_topics(
    session: Session, pipeline: Pipeline, published: Sequence[Published], uncompared: Collection[str]
) -> list[Breach]:
    """Return every way in which the records of topics come in a wrong order."""
    found: list[Breach | None] = []
    for each in published:
        if is_running_role(each.role) and each.role not in uncompared:
            groups = pipeline.groups_of(each.role)
            found += check_published_running(session, groups, f"changes_{each.role}", each.topic)
        # The first record of a repeat may be gone, and nothing else tells a repeat from a new row.
        if each.role == "results" and not each.lacks:
            found += check_order(session, pipeline, each.topic)
            found += check_partitions(session, each.topic) if not each.first_batch else []
    return [each for each in found if each is not None]


def _compare(session: Session, pipeline: Pipeline, topic: Published, *, compared: bool) -> TopicComparison:
    role = topic.role
    columns = list(pipeline.outputs.topic_columns(role))
    expected, foreign = f"expected_{role}", _foreign(session, role)
    once = _last(session, pipeline, role) if is_running_role(role) else _once(session, pipeline, role)
    uncertain = uncertain_table(pipeline, role)
    found = [differences(session, columns, once, expected, uncertain, may_lack=topic.may_lack), foreign]
    tables = {"expected": [expected], "actual": [once, f"foreign_{role}"]}
    if role == "results":
        found.append(_compare_punctuations(session, topic))
        tables["expected"].append("due_once")
        tables["actual"].append("said_once")
    if not compared:
        found, tables = [foreign], {"expected": [], "actual": [f"foreign_{role}"]}
    return TopicComparison(
        topic=topic.topic,
        records=topic.records,
        expected=sum(map(session.count, tables["expected"])),
        actual=sum(map(session.count, tables["actual"])),
        missing=sum(each.missing for each in found),
        unexpected=sum(each.unexpected for each in found),
        first_batch=topic.first_batch,
        lacks=topic.lacks,
        compared=compared,
        examples=[example for each in found for example in each.examples][:EXAMPLES],
    )


def _once(session: Session, pipeline: Pipeline, role: str) -> str:
    """Make the table of a topic's rows without repeats; return its name."""
    uncertain, expected, sure = uncertain_table(pipeline, role), name(f"expected_{role}"), "true"
    if is_group_role(role):
        groups = pipeline.groups_of(role)
        if isinstance(groups, ResultGroups) and groups.regroups:
            sure = sure_groups(groups)
    once = f"once_{role}"
    session.run(
        _ONCE,
        once=name(once),
        columns=names(list(pipeline.outputs.topic_columns(role))),
        published=name(f"published_{role}"),
        sure=sure,
        expected=expected,
        uncertain=f"(FROM {expected} LIMIT 0)" if uncertain is None else name(uncertain),
    )
    return once


def _last(session: Session, pipeline: Pipeline, role: str) -> str:
    """Make the table of the last record of each group in a topic; return its name."""
    changes, last = f"changes_{role}", f"last_{role}"
    columns = names(list(pipeline.outputs.topic_columns(role)))
    session.run(_CHANGES, changes=name(changes), columns=columns, published=name(f"published_{role}"))
    keep_last_published(session, pipeline.groups_of(role), changes, last)
    return last


def _compare_punctuations(session: Session, topic: Published) -> Differences:
    for statement in (_DUE, _PERHAPS, fill(_SAID, said=name(f"said_{topic.role}"))):
        session.run(statement)
    return differences(
        session, ["punctuation"], "said_once", "due_once", "perhaps_once", may_lack=topic.may_lack
    )


def _foreign(session: Session, role: str) -> Differences:
    """Return the records that no job of the checkpoint has sent."""
    foreign = f"foreign_{role}"
    rows = session.run(
        'FROM $foreign ORDER BY "partition", "offset" LIMIT ?', [EXAMPLES], foreign=name(foreign)
    )
    examples = [Difference(kind="unexpected", times=1, row=readable(row)) for row in rows]
    return Differences(0, session.count(foreign), examples)
