"""The answers of a job to questions of what keeps a key open, against `verify`'s own tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from endmark.operators.stream_join.presets import PRESETS, Preset, Propagation
from endmark.pipeline import Pipeline
from endmark.types import JoinType
from endmark.verify.join.sides import key_column, microseconds
from endmark.verify.promises.final_keys import announces, waiting_rows
from endmark.verify.session import Session, name, text
from endmark.wire.control import Question
from support.bucket_tasks import BucketTasks
from support.verify_keys import KeyKind
from support.verify_world import Record

NUMBERS = range(5)  # of the keys that histories have


def questions(pipeline: Pipeline, keys: KeyKind) -> list[Record]:
    """A question for each key that a history may have."""
    return [
        Record(pipeline.control_topic, 0, Question(keys.spell(number), "Ann").written()) for number in NUMBERS
    ]


def answers_of(tasks: BucketTasks) -> list[dict[str, Any]]:
    """The answers of the last batch, in the order of their questions."""
    found = [answer for report in tasks.reports for answer in report.get("answers", [])]
    return sorted(found, key=lambda answer: answer["offset"])


def require_answers(
    session: Session, pipeline: Pipeline, keys: KeyKind, answers: list[dict[str, Any]]
) -> None:
    """Assert that answers to all `questions` say what the tables of a recomputation say.

    Where no row and no promise names a key, `verify` does not look whether patterns close it.
    """
    (stage,) = pipeline.stages
    assert len(answers) == len(NUMBERS)
    preset = PRESETS[Preset.AUTO if stage.join is None else stage.join.preset]
    # Rows may leave before their key is announced: left rows of a semi join with their first partner, and
    # under some presets rows that can have no result.
    semi = stage.join is not None and stage.join.type is JoinType.SEMI
    leaves_early = semi or preset.propagate is Propagation.CLOSED
    for number, answer in zip(NUMBERS, answers, strict=True):
        key = {column: keys.spell(number)[column] for column in stage.key}
        if not _has(session, "mentioned", key, key_column):
            assert sum(each["rows"] for each in answer["streams"]) == 0
            continue
        final = announces(stage) != "never" and _has(session, "final", key, key_column)
        assert answer["final"] == final, (key, answer)
        for each in answer["streams"]:
            stream = each["stream"]
            assert each["closed"] == _has(session, f"closed_{stream}", key, key_column), (key, answer)
            own = dict(zip(stage.key_columns(stream), key.values(), strict=True))
            assert each["rows"] <= _count(session, f"side_{stream}", own), (key, answer)
            if stage.join is None:
                continue
            if each["rows"]:
                shut = {
                    other
                    for other in stage.inputs
                    if other != stream
                    and (
                        (preset.purge and _has(session, f"closed_{other}", key, key_column))
                        or _has_passed(session, other, each["newest"], microseconds(stage.window_of(stream)))
                    )
                }
                asked = {wait["stream"] for wait in each["waits_for"]}
                assert asked == set(stage.inputs) - {stream} - shut, (key, answer)
            waits = bool(_count(session, waiting_rows(stream, "lowest").strip('"'), own))
            if preset.purge and each["waits_for"]:
                assert waits, (key, answer)
            if waits and not final and not leaves_early:
                assert each["waits_for"], (key, answer)


def _has_passed(session: Session, stream: str, time: int, window: int | None) -> bool:
    """Return whether the progress of a stream has left the window of a row."""
    found = session.run("SELECT lowest FROM progress WHERE stream = ?", [stream])[0]["lowest"]
    return window is not None and found is not None and bool(time + window < found)


def _has(session: Session, table: str, key: Mapping[str, Any], column: Any) -> bool:
    return bool(_count(session, table, {column(name): value for name, value in key.items()}))


def _count(session: Session, table: str, values: Mapping[str, Any]) -> int:
    conditions = " AND ".join(_equal(column, value) for column, value in values.items())
    found = session.run("SELECT count(*) AS n FROM $table WHERE $met", table=name(table), met=conditions)
    return int(found[0]["n"])


def _equal(column: str, value: Any) -> str:
    written = text(value) if isinstance(value, str) else str(value)
    return f"{name(column)} = {written}"
