"""Flink's lookup join over recorded streams, in a process of its own; task and figures as of `lookup_run`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from endmark.errors import EndmarkError
from endmark_benchmarks.contenders import flink
from endmark_benchmarks.contenders.lookup_run import Cell
from endmark_benchmarks.workloads.lookup_input import FIGURES, TABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark_benchmarks.contenders.flink import Said

_STREAM = "key BIGINT, id BIGINT, now AS PROCTIME()"
_RELATION = "k BIGINT, price DOUBLE, name STRING, pad STRING, PRIMARY KEY (k) NOT ENFORCED"
_LOOKED_UP = f"""
SELECT CAST(0 AS BIGINT), {", ".join(FIGURES)}
FROM asked JOIN relation FOR SYSTEM_TIME AS OF asked.now ON key = k"""  # noqa: S608  # of constants
CACHES = {
    "flink-lookup": {"lookup.cache": "NONE"},
    "flink-lookup-cached": {"lookup.cache": "PARTIAL", "lookup.partial-cache.max-rows": "100000"},
}


def relation(url: str, cache: dict[str, str], table: str = TABLE, columns: str = _RELATION) -> str:
    """Return the statement that makes the table `relation` of R.

    Args:
        url: the database's URL as SQLAlchemy spells it.
        cache: the options of the cache.
        table: the name of R in the database.
        columns: its columns in SQL.
    """
    to = sa.make_url(url)
    options = {
        "connector": "jdbc",
        # Flink knows this server's SQL under MySQL's scheme alone.
        "url": f"jdbc:mysql://{to.host}:{to.port}/{to.database}?permitMysqlScheme",
        "driver": "org.mariadb.jdbc.Driver",
        "username": str(to.username),
        "password": str(to.password),
        "table-name": table,
    }
    return f"CREATE TABLE relation ({columns}) WITH ({flink.spelt(options | cache)})"


def rate(said: Sequence[Said], warm_up: float) -> float:
    """Return answers a second after a share of all that only warms up.

    Raises:
        EndmarkError: Flink said all of them at once.
    """
    last = said[-1]
    first = next(each for each in said if each.given.rows >= warm_up * last.given.rows)
    require_time(last.seconds - first.seconds)
    return (last.given.rows - first.given.rows) / (last.seconds - first.seconds)


def require_time(seconds: float) -> None:
    """Refuse a run whose answers after the warm-up all came at once, so that they have no rate.

    Raises:
        EndmarkError: no time has passed.
    """
    if seconds <= 0:
        raise EndmarkError("Flink gave all answers after the warm-up at once; give it more records")


def main() -> None:
    task: dict[str, Any] = json.load(sys.stdin)
    for each in task["cells"]:
        cell = Cell(**each)
        tables = [
            flink.parquet("asked", _STREAM, Path(cell.stream)),
            relation(cell.url, CACHES[task["contender"]]),
        ]
        said = flink.run(task["flink_jars"], {}, tables, _LOOKED_UP)
        figures = {"digests": [flink.total(said)], "rate": rate(said, warm_up=1 / 3)}
        print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
