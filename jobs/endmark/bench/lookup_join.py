"""`endmark bench lookup-join`: ways to look a stream up in a relation of a MariaDB, inside Spark.

Every contender reads the same files, batch by batch, and hands every answer to the same sink, which counts
and hashes them. Rates are those of whole batches, from trigger to commit, after a first one to warm up.
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
from endmark.bench.contest import Digest, DisagreementError, Rates, compared, in_process, interleaved
from endmark.bench.faraway import Faraway
from endmark.bench.lookup_input import STREAMS, Recorded, Sizes
from endmark.bench.report import origin
from endmark.errors import ConfigError, MissingPartError
from endmark.parts.jars import bench_jars, spark_jars
from endmark.parts.mariadb import MariaDb

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FILES_PER_BATCH = 10
OURS = "endmark-auto"
_RUN = "endmark.bench.lookup_run"


@dataclass(frozen=True)
class Contender:
    """A way to look up.

    Args:
        does: what it does with a batch.
        files_per_batch: less at once where a row's cost hardly hangs on it.
        batches: how many to run, the first ones, where each takes long; `None` is all.
        jdbc: needs MariaDB's JDBC driver.
    """

    does: str
    files_per_batch: int = FILES_PER_BATCH
    batches: int | None = None
    jdbc: bool = False


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
    contenders, more_jars = _present(options.contenders, say)
    sizes = options.sizes
    recorded = Recorded(options.directory / f"lookup-{sizes.stream}-{sizes.file}-{sizes.relation}")
    if not recorded.has_digests:
        say(f"recording {sizes.stream:,} rows of each stream in {recorded.directory}")
        lookup_input.record(recorded, sizes)
        recorded.keep_digests(_digests(recorded, sizes, jars))
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
            runs = in_process(_RUN, {"contender": name, "cells": tasks, "jars": jars + more_jars})
            for cell, task, run in zip(cells, tasks, runs, strict=True):
                _require_same(
                    name, cell, Digest.total(run["digests"]), recorded.digest(cell.keys, task["files"])
                )
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


def _present(names: Sequence[str], say: Callable[[str], None]) -> tuple[list[str], list[str]]:
    """The contenders that can run, ours first, and the jars of theirs."""
    chosen = [name for name in CONTENDERS if name in (OURS, *names)]
    if not any(CONTENDERS[name].jdbc for name in chosen):
        return chosen, []
    try:
        return chosen, [str(jar) for jar in bench_jars(say)]
    except MissingPartError as error:
        left_out = [name for name in chosen if CONTENDERS[name].jdbc]
        say(f"left out {', '.join(left_out)}: {error}")
        return [name for name in chosen if name not in left_out], []


def _digests(recorded: Recorded, sizes: Sizes, jars: list[str]) -> dict[str, list[Digest]]:
    """Digests of DuckDB's answers, by stream and file."""
    files = [str(recorded.answers(name)) for name in STREAMS]
    task = {"contender": "DuckDB's answers", "files": files, "each": sizes.file, "jars": jars}
    runs = in_process("endmark.bench.lookup_answers", task)
    return {name: run["digests"] for name, run in zip(STREAMS, runs, strict=True)}


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
