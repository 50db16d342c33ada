"""Oracles that hold whenever a job has read all of its records, whatever has happened before."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from deltalake import DeltaTable
from kafka import KafkaConsumer, TopicPartition

from endmark.metrics import parse
from endmark.verify.report import TableComparison, VerifyReport
from processes.evidence import keep
from processes.feed import Place
from processes.rig import Rig

_PLACE = "topic", "partition", "offset"
_COORDINATES = "_kafka_partition", "_kafka_offset"
_LETTERS = "dead_letters", "violations"
_READ_MS = 10_000
_SHOWN = 3


@dataclass(frozen=True)
class Verdict:
    """The faults of a state, and how many rows of all tables are missing or too many."""

    wrong: tuple[str, ...] = ()
    lost: int = 0
    doubled: int = 0


def verdict(rig: Rig) -> Verdict:
    """Judge a rig whose job has read all that is acknowledged, and whose feed is paused."""
    report = rig.warehouse.verify()
    batch = rig.batch()
    kept = [] if report.ok else [f"the tables, the records and the logs are in {keep(rig, report)}"]
    wrong = [
        *differences(report),
        *kept,
        *lost_records(rig.feed.acknowledged, read_topics(rig.broker.bootstrap, rig.feed.acknowledged)),
        *skipped_offsets({} if batch is None else batch.offsets, rig.feed.ends(), rig.topics),
        *doubled_letters(rig.disk("job") / "warehouse"),
        *doubled_results(rig.disk("job") / "warehouse"),
        *broken_log(rig.spark),
    ]
    return Verdict(
        tuple(wrong),
        sum(table.missing for table in report.tables),
        sum(table.unexpected for table in report.tables),
    )


def differences(report: VerifyReport) -> list[str]:
    """Compare tables with their recomputation, and require that each record is in one place."""
    tables = [
        f"table {each.table} lacks {each.missing} rows, and has {each.unexpected} too many{_first(each)}"
        for each in report.tables
        if each.differs
    ]
    return tables + [f"{each.rule}: {each.times} times" for each in report.breaches]


def _first(table: TableComparison) -> str:
    """Return the problem of a table, or its first differences."""
    found = [f"{each.kind} {each.row}" for each in table.examples[:_SHOWN]]
    told = found if table.problem is None else [table.problem]
    return f": {'; '.join(told)}" if told else ""


def read_topics(bootstrap: str, places: Iterable[Place]) -> dict[Place, dict[int, int]]:
    """Return the checksums of all values by offset, by partition, as a consumer finds them in Kafka."""
    found: dict[Place, dict[int, int]] = {}
    with closing(KafkaConsumer(bootstrap_servers=bootstrap, max_partition_fetch_bytes=16 << 20)) as consumer:
        for place in places:
            partition = TopicPartition(*place)
            consumer.assign([partition])
            consumer.seek_to_beginning(partition)
            end, values = consumer.end_offsets([partition])[partition], found.setdefault(place, {})
            while consumer.position(partition) < end:
                records = consumer.poll(_READ_MS).get(partition, [])
                assert records, f"{place} cannot be read behind {consumer.position(partition)}"
                values.update((each.offset, zlib.crc32(each.value or b"")) for each in records)
    return found


def lost_records(
    acknowledged: Mapping[Place, Mapping[int, int]], found: Mapping[Place, Mapping[int, int]]
) -> list[str]:
    """Require that Kafka has each acknowledged record, with its value, and no other one."""
    wrong = []
    for place, values in acknowledged.items():
        there = found.get(place, {})
        lost = [offset for offset, value in values.items() if there.get(offset) != value]
        more = there.keys() - values.keys()
        if lost or more:
            wrong.append(f"{place.topic}/{place.partition}: {len(lost)} records lost, {len(more)} unknown")
    return wrong


def skipped_offsets(
    read: Mapping[str, Mapping[str, int]], ends: Mapping[Place, int], topics: Iterable[str]
) -> list[str]:
    """Require that the last batch ends where the topics do."""
    return [
        f"{topic}/{partition} is read up to {read.get(topic, {}).get(str(partition), 0)}, and ends at {end}"
        for (topic, partition), end in ends.items()
        if topic in topics and read.get(topic, {}).get(str(partition), 0) != end
    ]


def doubled_letters(warehouse: Path) -> list[str]:
    """Require that no record is twice among dead letters and violations, by the coordinates of records."""
    seen: set[tuple[str, int, int]] = set()
    wrong = []
    for name in _LETTERS:
        if not (warehouse / name / "_delta_log").exists():
            continue
        table = DeltaTable(str(warehouse / name)).to_pyarrow_table(columns=list(_PLACE))
        places = list(zip(*(table[column].to_pylist() for column in _PLACE), strict=True))
        if doubled := len(places) - len(set(places) - seen):
            wrong.append(f"{doubled} records of {name} are in two places")
        seen.update(places)
    return wrong


def doubled_results(warehouse: Path) -> list[str]:
    """Require that no two results are of the same records, by the coordinates of records."""
    table = DeltaTable(str(warehouse / "results"))
    places = [field.name for field in table.schema().fields if field.name.endswith(_COORDINATES)]
    rows = list(
        zip(
            *(column.to_pylist() for column in table.to_pyarrow_table(columns=places).itercolumns()),
            strict=True,
        )
    )
    doubled = len(rows) - len(set(rows))
    return [f"{doubled} results are of records that have one already"] if doubled else []


def broken_log(spark: Path) -> list[str]:
    """Require that no batch of the checkpoint goes back, and that each commit has a plan."""
    plans = {int(file.name): file for file in (spark / "offsets").iterdir() if file.name.isdecimal()}
    commits = {int(file.name) for file in (spark / "commits").iterdir() if file.name.isdecimal()}
    wrong = [f"batch {number} has a commit and no plan" for number in sorted(commits - plans.keys())]
    last: dict[str, dict[str, int]] = {}
    for number, file in sorted(plans.items()):
        offsets: dict[str, dict[str, int]] = json.loads(file.read_text().splitlines()[2])
        for topic, ends in offsets.items():
            back = [part for part, end in ends.items() if end < last.get(topic, {}).get(part, 0)]
            wrong += [f"batch {number} goes back in {topic}/{part}" for part in back]
        last = offsets
    return wrong


def rows_in_state(rig: Rig) -> list[str]:
    """Require that no row is in state, once promises have closed everything."""
    batch = rig.batch()
    samples = {} if batch is None else batch.samples
    found = {key: value for key, value in samples.items() if parse(key)[0] == "state_rows" and value}
    return [f"all keys are closed, and {key} is {value:.0f}" for key, value in found.items()]


def told_secrets(directory: Path, url: str) -> list[str]:
    """Require that no file below a directory has the password of a database."""
    secret = sa.make_url(url).password
    assert secret is not None
    found = []
    for file in directory.rglob("*"):
        if file.is_file() and "disk-broker" not in file.parts and "disk-database" not in file.parts:
            content = file.read_bytes()
            if secret.encode() in content:
                found.append(f"{file.relative_to(directory)} has the password of the database")
    return found
