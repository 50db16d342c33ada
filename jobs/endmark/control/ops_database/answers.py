"""The answers of jobs to questions about a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from endmark.control.ops_database.part import Part, patiently
from endmark.control.ops_database.tables import answers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KEPT_ANSWERS = 1_000  # records of the control topic; whoever asks waits for some seconds


class Answers(Part):
    """Reads and writes the table of answers."""

    @patiently
    def record(self, pipeline: str, batch_id: int, found: Sequence[Mapping[str, Any]]) -> None:
        """Store the answers to questions that a batch has read; they replace those of an earlier attempt.

        Answers to questions of long ago are removed.

        Args:
            pipeline: the pipeline's name.
            batch_id: the number of the batch.
            found: the answers, each with `partition` and `offset` of its question.
        """
        by_question: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
        for answer in found:
            by_question.setdefault((answer["partition"], answer["offset"]), []).append(answer)
        with self._engine.begin() as connection:
            for (partition, offset), own in by_question.items():
                here = (answers.c.pipeline == pipeline) & (answers.c.partition == partition)
                old = (answers.c.offset == offset) | (answers.c.offset < offset - KEPT_ANSWERS)
                connection.execute(answers.delete().where(here, old))
                coordinates = {"pipeline": pipeline, "partition": partition, "offset": offset}
                row = coordinates | {"batch_id": batch_id, "answers": [dict(each) for each in own]}
                connection.execute(answers.insert().values(**row))

    def find(self, pipeline: str, partition: int, offset: int) -> dict[str, Any] | None:
        """Return `batch_id` and `answers` for a question; `None` if there is no answer yet."""
        here = (answers.c.partition == partition) & (answers.c.offset == offset)
        query = sa.select(answers.c.batch_id, answers.c.answers).where(answers.c.pipeline == pipeline, here)
        with self._engine.connect() as connection:
            row = connection.execute(query).first()
        return dict(row._mapping) if row else None
