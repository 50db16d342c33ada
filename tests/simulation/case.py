"""A case: a world and a schedule in a file, so that a failure stays when other worlds are drawn."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from endmark.pipeline import Pipeline
from simulation.campaign import workshop
from simulation.oracle import Verdict
from simulation.run import Outcome, Run, Schedule
from simulation.world import World
from support.sizes import Merging
from support.verify_world import Record

CASES = Path(__file__).parent / "cases"


class Case(NamedTuple):
    """A world and a schedule."""

    world: World
    schedule: Schedule

    def judged(self) -> tuple[Outcome, Verdict | None]:
        """Run the case."""
        with workshop(self.world) as (job, oracle):
            outcome = Run(job, self.schedule).outcome()
            return outcome, oracle.verdict(outcome)


def written(case: Case) -> str:
    """Return the text of a case's file."""
    world = case.world
    document = {
        "schedule": asdict(case.schedule),
        "partitions": dict(world.partitions),
        "buckets": world.buckets,
        "merging": asdict(world.merging),
        "full_batch": world.full_batch,
        "records": [
            [
                each.topic,
                each.partition,
                each.timestamp,
                *map(_spelled, (each.value, each.key)),
                _headers(each),
            ]
            for each in world.records
        ],
        "pipeline": world.pipeline.model_dump(by_alias=True),
    }
    return json.dumps(document, indent=1, ensure_ascii=False, default=_as_in_a_file) + "\n"


def read(file: Path) -> Case:
    """Return the case in a file."""
    found = json.loads(file.read_text())
    schedule = found["schedule"]
    only = schedule["only"]
    return Case(
        World(
            Pipeline.model_validate(found["pipeline"]),
            found["partitions"],
            [
                Record(
                    topic,
                    partition,
                    _value(*value),
                    timestamp,
                    _value(*key),
                    tuple((name, _value(*header)) for name, header in headers),
                )
                for topic, partition, timestamp, value, key, headers in found["records"]
            ],
            buckets=found["buckets"],
            merging=Merging(**found["merging"]),
            full_batch=found["full_batch"],
        ),
        replace(
            Schedule(**schedule),
            kinds=tuple(schedule["kinds"]),
            only=None if only is None else tuple(only),
        ),
    )


def _as_in_a_file(value: object) -> str:
    """A value of a pipeline that JSON does not have: durations and paths."""
    if isinstance(value, timedelta):
        return f"{round(value / timedelta(milliseconds=1))}ms"
    return str(value)


def _spelled(value: bytes | None) -> tuple[str, str]:
    """Bytes of a record as a form and a text."""
    if value is None:
        return "null", ""
    try:
        return "text", value.decode()
    except UnicodeDecodeError:
        return "base64", base64.b64encode(value).decode()


def _headers(record: Record) -> list[tuple[str, tuple[str, str]]]:
    return [(name, _spelled(value)) for name, value in record.headers]


def _value(form: str, text: str) -> bytes | None:
    match form:
        case "null":
            return None
        case "text":
            return text.encode()
    return base64.b64decode(text)
