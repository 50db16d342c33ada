"""`python -m endmark_benchmarks lookup-join`: ways to look a stream up in MariaDB, in Spark and in Flink.

Every contender reads the same files, and counts and hashes every answer by the same rule. Rates are those of
the rows after the first third: in Spark of whole batches, from trigger to commit.
Contenders take turns, in processes of their own; answers are compared with DuckDB's.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from endmark.embedded.mariadb import MariaDb
from endmark.errors import ConfigError
from endmark.spark.processes.class_archive import local_jars
from endmark_benchmarks.contenders.jars import flink_jars, jdbc_jars
from endmark_benchmarks.harness.contest import (
    Digest,
    DisagreementError,
    Rates,
    compared,
    in_process,
    interleaved,
    require_known,
    with_parts,
)
from endmark_benchmarks.harness.origin import origin
from endmark_benchmarks.workloads import lookup_input
from endmark_benchmarks.workloads.faraway import Faraway
from endmark_benchmarks.workloads.lookup_input import STREAMS, Recorded, Sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

FILES_PER_BATCH = 2  # of the smallest size of batch: one for each task
OURS = "endmark-auto"
_SPARK, _FLINK = "endmark_benchmarks.contenders.lookup_run", "endmark_benchmarks.contenders.lookup_flink"
_FEW = 6  # batches: two that warm up, and four


@dataclass(frozen=True)
class Contender:
    """A way to look up.

    Args:
        does: how it answers a batch, in Markdown.
        by_row: whether it answers a row at a time, so that one size of batches, the first, says all.
        batches: how many to run, the first ones, where each takes long; `None` is all.
        jdbc: needs MariaDB's JDBC driver in Spark.
        module: that runs it.
    """

    does: str
    by_row: bool = False
    batches: int | None = None
    jdbc: bool = False
    module: str = _SPARK


CONTENDERS = {
    "endmark-auto": Contender("`lookup_join` on a frame, `strategy: auto`"),
    "endmark-batched": Contender("as `endmark-auto`, but `strategy: batched`: the batch's keys, in lists"),
    "endmark-hybrid": Contender(
        "as `endmark-auto`, but `strategy: hybrid`: HYBRIDJOIN's pages", batches=_FEW
    ),
    "endmark-job": Contender("a job's lookup, `strategy: auto`: behind a shuffle, in its stateful operator"),
    "endmark-cache": Contender("as `endmark-job`, with `cache: {}`: 64 MB for each Python process"),
    "spark-in-list": Contender("`foreachBatch`: the keys of the batch, in lists by JDBC", jdbc=True),
    "spark-full-read": Contender("`foreachBatch`: all of R by JDBC", batches=_FEW, jdbc=True),
    "spark-per-row": Contender(
        "`foreachBatch`: a statement for each row by PyMySQL", by_row=True, batches=_FEW
    ),
    "spark-cached": Contender("`foreachBatch`: all of R in Spark's memory, read beforehand", jdbc=True),
    "memory": Contender("all of R in the memory of Python processes, read beforehand"),
    "flink-lookup": Contender(
        "Flink's lookup join by JDBC: a statement for each row", by_row=True, module=_FLINK
    ),
    "flink-lookup-cached": Contender(
        "as `flink-lookup`, with a cache of 100,000 rows in each of the two tasks", by_row=True, module=_FLINK
    ),
}


@dataclass(frozen=True)
class LookupJoinOptions:
    """The options of the measurement.

    Args:
        stream_rows, relation_rows: of each stream, of R.
        batch_rows: sizes of batches, all multiples of the first, which is one of `FILES_PER_BATCH`.
        delays: milliseconds on the way to the database.
        driver: by which endmark asks the database, as SQLAlchemy names it.
        repeats: runs of each contender.
        contenders: by name; `OURS` is always among them.
        directory: of recorded input, which is made when it is not there.
    """

    stream_rows: int
    relation_rows: int
    batch_rows: tuple[int, ...]
    delays: tuple[float, ...]
    driver: str
    repeats: int
    contenders: tuple[str, ...]
    directory: Path

    def __post_init__(self) -> None:
        require_known("contender", self.contenders, CONTENDERS)
        first = self.batch_rows[0]
        if first % FILES_PER_BATCH or any(rows % first for rows in self.batch_rows):
            raise ConfigError(
                f"--batch-rows: {first} must be a multiple of {FILES_PER_BATCH}, and others of it"
            )
        if self.stream_rows < 3 * max(self.batch_rows):
            raise ConfigError(
                f"--batch-rows: {max(self.batch_rows)} must be at most a third of --stream-rows, "
                f"{self.stream_rows}, since the first third of the batches only warms up"
            )

    @property
    def sizes(self) -> Sizes:
        return Sizes(self.stream_rows, self.batch_rows[0] // FILES_PER_BATCH, self.relation_rows)


@dataclass(frozen=True)
class _Cell:
    """A stream, how far away the database is, and the rows of a batch."""

    keys: str
    delay: float
    url: str
    rows: int

    @property
    def title(self) -> str:
        return f"{self.keys} keys, {self.delay:g} ms away, batches of {self.rows:,} rows"


def measure(options: LookupJoinOptions, say: Callable[[str], None]) -> dict[str, Any]:
    """Run every contender in every cell, and report as JSON has values for it.

    Raises:
        EndmarkError: a part is missing, a contender failed, or it gave other answers than DuckDB.
    """
    report: dict[str, Any] = {"bench": "lookup-join", **origin(), "options": _said(options)}
    jars = [str(jar) for jar in local_jars(say)]
    chosen = [name for name in CONTENDERS if name in (OURS, *options.contenders)]
    by_jdbc = [name for name in chosen if CONTENDERS[name].jdbc]
    of_flink = [name for name in chosen if CONTENDERS[name].module == _FLINK]
    chosen, more_jars = with_parts(chosen, by_jdbc, jdbc_jars, say)
    contenders, jars_of_flink = with_parts(chosen, of_flink, flink_jars, say)
    sizes = options.sizes
    recorded = Recorded(options.directory / f"lookups-{sizes.stream}-{sizes.file}-{sizes.relation}")
    if not recorded.whole:
        say(f"recording {sizes.stream:,} rows of each stream in {recorded.directory}")
        lookup_input.record(recorded, sizes)
    rates: dict[_Cell, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with ExitStack() as parts:
        server = parts.enter_context(MariaDb(recorded.database, memory=lookup_input.SERVER_MEMORY))
        say(f"filling R with {sizes.relation:,} rows, unless it is there")
        lookup_input.fill(server.url, sizes.relation)
        report["versions"]["mariadb"] = lookup_input.version(server.url)
        cells = [
            _Cell(keys, delay, url, rows)
            for delay, url in _away(parts, server.url.replace("pymysql", options.driver), options.delays)
            for rows in options.batch_rows
            for keys in STREAMS
        ]
        for repeat, name in interleaved(contenders, options.repeats):
            mine = [cell for cell in cells if _differs(CONTENDERS[name], cell, options)]
            tasks = [_task(cell, CONTENDERS[name], recorded, sizes) for cell in mine]
            task = {"contender": name, "cells": tasks, "jars": jars + more_jars, "flink_jars": jars_of_flink}
            runs = in_process(CONTENDERS[name].module, task)
            for cell, done, run in zip(mine, tasks, runs, strict=True):
                expected = recorded.digest(cell.keys, done["files"])
                _require_same(name, cell, Digest.total(run["digests"]), expected)
                rates[cell][name].append(run["rate"])
                say(f"{repeat + 1}: {name}, {cell.title}: {run['rate']:,.0f} rows/s")
    report["cells"] = [
        {
            "title": cell.title,
            "keys": cell.keys,
            "delay_ms": cell.delay,
            "contenders": compared(
                {name: Rates.of(rates[_measured(name, cell, options)][name]) for name in contenders}, OURS
            ),
        }
        for cell in cells
    ]
    return report


def _differs(contender: Contender, cell: _Cell, options: LookupJoinOptions) -> bool:
    """Return whether the contender is run with the size of the cell's batches."""
    return not contender.by_row or cell.rows == options.batch_rows[0]


def _measured(name: str, cell: _Cell, options: LookupJoinOptions) -> _Cell:
    """The cell that says how fast a contender is in this one."""
    return replace(cell, rows=options.batch_rows[0]) if CONTENDERS[name].by_row else cell


def _said(options: LookupJoinOptions) -> dict[str, Any]:
    return {name: value for name, value in asdict(options).items() if name not in ("directory", "contenders")}


def _away(parts: ExitStack, url: str, delays: Sequence[float]) -> Iterator[tuple[float, str]]:
    """The URLs of the same database, so many milliseconds away."""
    near = sa.make_url(url)
    for delay in delays:
        port = parts.enter_context(Faraway(near.port or 0, delay / 1000)).port if delay else near.port
        yield delay, near.set(port=port).render_as_string(hide_password=False)


def _task(cell: _Cell, contender: Contender, recorded: Recorded, sizes: Sizes) -> dict[str, Any]:
    files = -(-sizes.stream // sizes.file)
    files_per_batch = cell.rows // sizes.file
    if contender.batches is not None:
        files = min(files, contender.batches * files_per_batch)
    return {
        "stream": str(recorded.stream(cell.keys)),
        "files": files,
        "files_per_batch": files_per_batch,
        "url": cell.url,
        "relation_rows": sizes.relation,
        "relation_file": str(recorded.relation),
    }


def _require_same(name: str, cell: _Cell, given: Digest, expected: Digest) -> None:
    if given != expected:
        raise DisagreementError(
            f"{name} gave {given.rows:,} answers to {cell.title}, of digest {given[1:]}, but DuckDB "
            f"{expected.rows:,} of {expected[1:]}; there is nothing to compare"
        )
