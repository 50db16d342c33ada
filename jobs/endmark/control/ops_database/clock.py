"""The clock of the ops database. Job and sidecar agree on ages by it, even if their own clocks differ."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class clock(FunctionElement[float]):  # noqa: N801  # it is used like the functions of `sa.func`
    """The time of the database server in Unix seconds, as an SQL expression; for SQLite, this machine's."""

    type = sa.Double()
    inherit_cache = True
    name = "clock"


@compiles(clock, "sqlite")
def _sqlite(_element: clock, _compiler: Any, **_options: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(clock, "mysql")
@compiles(clock, "mariadb")
def _mysql(_element: clock, _compiler: Any, **_options: Any) -> str:
    # UTC, since a local hour comes twice when the clock is put back.
    return "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1e6)"


@compiles(clock, "postgresql")
def _postgresql(_element: clock, _compiler: Any, **_options: Any) -> str:
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS double precision)"
