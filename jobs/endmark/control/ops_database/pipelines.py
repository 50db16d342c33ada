"""The pipelines that an ops database knows, and how their jobs describe them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from endmark.control.ops_database.part import Part, patiently
from endmark.control.ops_database.tables import pipelines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Pipelines(Part):
    """Reads and writes the table of pipelines."""

    @patiently
    def describe(self, pipeline: str, description: Mapping[str, Any]) -> None:
        """Store a job's description of its pipeline; it replaces an earlier job's."""
        with self._engine.begin() as connection:
            _put(connection, pipeline, {"description": dict(description)})

    def description(self, pipeline: str) -> dict[str, Any] | None:
        """Return the description of a pipeline; `None` if no job has stored one."""
        query = sa.select(pipelines.c.description).where(pipelines.c.pipeline == pipeline)
        with self._engine.connect() as connection:
            found: dict[str, Any] | None = connection.execute(query).scalar()
        return found

    def names(self) -> Sequence[str]:
        """Return the names of all pipelines that a job has started or described, sorted."""
        query = sa.select(pipelines.c.pipeline).order_by(pipelines.c.pipeline)
        with self._engine.connect() as connection:
            return connection.execute(query).scalars().all()


def lock(connection: sa.Connection, pipeline: str) -> None:
    """Lock the pipeline's row until the transaction ends, so that each job sees the jobs before it."""
    _put(connection, pipeline, {"pipeline": pipeline})


def _put(connection: sa.Connection, pipeline: str, values: Mapping[str, Any]) -> None:
    """Update the pipeline's row, or insert it."""
    changed = pipelines.update().where(pipelines.c.pipeline == pipeline).values(**values)
    if not connection.execute(changed).rowcount:
        connection.execute(pipelines.insert().values(**{"pipeline": pipeline, "description": None, **values}))
