"""`endmark bench lookup-join`: ways to look a stream up in a relation of a MariaDB, in Spark and in Flink.

Every contender reads the same files, and counts and hashes every answer by the same rule. Rates in Spark
are those of whole batches, from trigger to commit, after a first one to warm up; in Flink those of the rows
after as many.
Contenders take turns, in processes of their own; answers are compared with DuckDB's.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from endmark.bench import lookup_input
from endmark.bench.contest import (
    Digest,
    DisagreementError,
    Rates,
    compared,
    in_process,
    interleaved,
    with_jars,
)
from endmark.bench.faraway import Faraway
from endmark.bench.lookup_input import STREAMS, Recorded, Sizes
from endmark.bench.report import origin
from endmark.errors import ConfigError
from endmark.parts.jars import bench_jars, flink_jars, spark_jars
from endmark.parts.mariadb import MariaDb

if TYPE_CHECKING:
    from collections.abc import Callable

FILES_PER_BATCH = 10
OURS = "endmark-auto"
_SPARK, _FLINK = "endmark.bench.lookup_run", "endmark.bench.lookup_flink"


@dataclass(frozen=True)
class Contender:
    """A way to look up.

    Args:
        does: what it does with a batch.
        files_per_batch: less at once where a row's cost hardly hangs on it.
        batches: how many to run, the first ones, where each takes long; `None` is all.
        jdbc: needs MariaDB's JDBC driver in Spark.
        module: that runs it.
    """

    does: str
    files_per_batch: int = FILES_PER_BATCH
    batches: int | None = None
    jdbc: bool = False
    module: str = _SPARK


CONTENDERS = {
    "endmark-auto": Contender("endmark, `strategy: auto`"),
    "endmark-batched": Contender("endmark, `strategy: batched`: the keys of the batch, in lists"),
    "endmark-hybrid": Contender("endmark, `strategy: hybrid`: HYBRIDJOIN's pages", batches=2),
    "endmark-cache": Contender("endmark, `strategy: auto` and `cache: {}`, 64 MB for each Python process"),
    "spark-in-list": Contender("`foreachBatch`: the keys of the batch, in lists by JDBC", jdbc=True),
    "spark-full-read": Contender("`foreachBatch`: all of R by JDBC", batches=2, jdbc=True),
    "spark-per-row": Contender(
        "`foreachBatch`: a statement for each row by PyMySQL", files_per_batch=3, batches=2
    ),
    "spark-cached": Contender("`foreachBatch`: all of R in Spark's memory, read before", jdbc=True),
    "memory": Contender("all of R in the memory of Python processes, read before"),
    "flink-lookup": Contender("Flink's lookup join by JDBC: a statement for each row", module=_FLINK),
    "flink-lookup-cached": Contender(
        "the same, with a cache of 100,000 rows in each of the two tasks", module=_FLINK
    ),
}


@dataclass(frozen=True)
class Options:
    """What is measured.

    Args:
        stream_rows, relation_rows: of each stream, of R.
        batch_rows: a multiple of `FILES_PER_BATCH`.
        delays: milliseconds on the way to the database.
        driver: by which endmark asks the database, as SQLAlchemy names it.
        repeats: runs of each contender.
        contenders: by name; `OURS` is always among them.
        directory: of recorded input, which is made when it is not there.
    """

    stream_rows: int
    relation_rows: int
    batch_rows: int
    delays: tuple[float, ...]
    driver: str
    repeats: int
    contenders: tuple[str, ...]
    directory: Path

    def __post_init__(self) -> None:
        if unknown := [name for name in self.contenders if name not in CONTENDERS]:
            raise ConfigError(f"--contender: {unknown[0]!r} is not one of {', '.join(CONTENDERS)}")
        if self.batch_rows % FILES_PER_BATCH or self.stream_rows < 2 * self.batch_rows:
            raise ConfigError(
                f"--batch-rows: {self.batch_rows} must be a multiple of {FILES_PER_BATCH}, and at most half "
                f"of --stream-rows, {self.stream_rows}, since the first batch only warms up"
            )

    @property
    def sizes(self) -> Sizes:
        return Sizes(self.stream_rows, self.batch_rows // FILES_PER_BATCH, self.relation_rows)


@dataclass(frozen=True)
class _Cell:
    """A stream, and how far away the database is."""

    keys: str
    delay: float
    url: str


def measure(options: Options, say: Callable[[str], None]) -> dict[str, Any]:
    """Run every contender in every cell, and report as JSON has values for it.

    Raises:
        EndmarkError: a part is missing, a contender failed, or it gave other answers than DuckDB.
    """
    report: dict[str, Any] = {"bench": "lookup-join", **origin(), "options": _said(options)}
    jars = [str(jar) for jar in spark_jars(say)]
    chosen = [name for name in CONTENDERS if name in (OURS, *options.contenders)]
    by_jdbc = [name for name in chosen if CONTENDERS[name].jdbc]
    of_flink = [name for name in chosen if CONTENDERS[name].module == _FLINK]
    chosen, more_jars = with_jars(chosen, by_jdbc, bench_jars, say)
    contenders, jars_of_flink = with_jars(chosen, of_flink, flink_jars, say)
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
            _Cell(keys, delay, _away(parts, server.url.replace("pymysql", options.driver), delay))
            for delay in options.delays
            for keys in STREAMS
        ]
        for repeat, name in interleaved(contenders, options.repeats):
            tasks = [_task(cell, CONTENDERS[name], recorded, sizes) for cell in cells]
            task = {"contender": name, "cells": tasks, "jars": jars + more_jars, "flink_jars": jars_of_flink}
            runs = in_process(CONTENDERS[name].module, task)
            for cell, done, run in zip(cells, tasks, runs, strict=True):
                expected = recorded.digest(cell.keys, done["files"])
                _require_same(name, cell, Digest.total(run["digests"]), expected)
                rates[cell][name].append(run["rate"])
                say(f"{repeat + 1}: {name}, {cell.keys}, +{cell.delay:g} ms: {run['rate']:,.0f} rows/s")
    report["cells"] = [
        {
            "title": f"{cell.keys} keys, {cell.delay:g} ms away",
            "keys": cell.keys,
            "delay_ms": cell.delay,
            "contenders": compared({name: Rates.of(each) for name, each in found.items()}, OURS),
        }
        for cell, found in rates.items()
    ]
    return report


def _said(options: Options) -> dict[str, Any]:
    return {name: value for name, value in asdict(options).items() if name not in ("directory", "contenders")}


def _away(parts: ExitStack, url: str, delay: float) -> str:
    """The URL of the same database, so many milliseconds away."""
    if not delay:
        return url
    near = sa.make_url(url)
    port = parts.enter_context(Faraway(near.port or 0, delay / 1000)).port
    return near.set(port=port).render_as_string(hide_password=False)


def _task(cell: _Cell, contender: Contender, recorded: Recorded, sizes: Sizes) -> dict[str, Any]:
    files = -(-sizes.stream // sizes.file)
    if contender.batches is not None:
        files = min(files, contender.batches * contender.files_per_batch)
    return {
        "stream": str(recorded.stream(cell.keys)),
        "files": files,
        "files_per_batch": contender.files_per_batch,
        "url": cell.url,
        "relation_rows": sizes.relation,
        "relation_file": str(recorded.relation),
    }


def _require_same(name: str, cell: _Cell, given: Digest, expected: Digest) -> None:
    if given != expected:
        raise DisagreementError(
            f"{name} gave {given.rows:,} answers to {cell.keys} keys, of digest {given[1:]}, but DuckDB "
            f"{expected.rows:,} of {expected[1:]}; there is nothing to compare"
        )
