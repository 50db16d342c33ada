"""The turns of knobs that each pipeline's job has read from its control topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from endmark.control.ops_database.part import Part, patiently
from endmark.control.ops_database.tables import turns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

KEPT_TURNS = 1_000  # with 100,000, a list of knobs took 3.5 s; Kafka has the older ones


class Turns(Part):
    """Reads and writes the table of turns, refused ones included."""

    @patiently
    def record(
        self, pipeline: str, batch_id: int, rows: Sequence[Mapping[str, Any]], filed: Mapping[str, Any]
    ) -> None:
        """Store the turns that a batch has read; they replace those that an earlier attempt stored.

        Turns of long ago are removed, but not the one whose value a knob has.

        Args:
            pipeline: the pipeline's name.
            batch_id: the number of the batch.
            rows: rows of the table `turns` without `pipeline`, `batch_id` and `before`.
            filed: the value of each knob in the pipeline file, which holds before the first turn.
        """
        mine = turns.c.pipeline == pipeline
        with self._engine.begin() as connection:
            for turn in sorted(rows, key=lambda turn: (turn["partition"], turn["offset"])):
                here = mine & (turns.c.partition == turn["partition"])
                connection.execute(turns.delete().where(here, turns.c.offset == turn["offset"]))
                earlier = (
                    sa.select(turns.c.value)
                    .where(here, turns.c.offset < turn["offset"], turns.c.name == turn["name"])
                    .where(turns.c.refused.is_(None))
                    .order_by(turns.c.offset.desc())
                    .limit(1)
                )
                found = connection.execute(earlier).first()
                before = filed.get(turn["name"]) if found is None else found.value
                added = {"pipeline": pipeline, "batch_id": batch_id, "before": before}
                connection.execute(turns.insert().values(**turn, **added))
            newest = sa.select(turns.c.offset).where(mine).order_by(turns.c.offset.desc())
            if (
                rows
                and (until := connection.execute(newest.offset(KEPT_TURNS).limit(1)).scalar()) is not None
            ):
                taken = sa.select(sa.func.max(turns.c.offset)).where(mine, turns.c.refused.is_(None))
                hold = connection.execute(taken.group_by(turns.c.name)).scalars().all()
                connection.execute(
                    turns.delete().where(mine, turns.c.offset <= until, turns.c.offset.not_in(hold))
                )

    def of(self, pipeline: str) -> Sequence[dict[str, Any]]:
        """Return the stored turns, also refused ones, in the order of their records, as mappings."""
        query = sa.select(turns).where(turns.c.pipeline == pipeline)
        with self._engine.connect() as connection:
            found = connection.execute(query.order_by(turns.c.partition, turns.c.offset))
            return [dict(row._mapping) for row in found]

    def refuse(self, pipeline: str, why_not: Callable[[str, Any], str | None]) -> Sequence[dict[str, Any]]:
        """Mark stored turns as refused if their values are no longer allowed; return these turns.

        Args:
            pipeline: the pipeline's name.
            why_not: given a knob's name and a value, returns why the value is not allowed, or `None`.
        """
        found = [turn for turn in self.of(pipeline) if turn["refused"] is None]
        refused = [
            {**turn, "refused": why}
            for turn in found
            if (why := why_not(turn["name"], turn["value"])) is not None
        ]
        with self._engine.begin() as connection:
            for turn in refused:
                this = (turns.c.partition == turn["partition"]) & (turns.c.offset == turn["offset"])
                here = turns.update().where(turns.c.pipeline == pipeline, this)
                connection.execute(here.values(refused=turn["refused"]))
        return refused
