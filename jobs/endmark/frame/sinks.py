"""The common parts of the sinks of frames: how a query starts, and how a batch is divided by kind."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812

from endmark.driver.checkpoint import claimed
from endmark.driver.moved_checkpoint import follow_move
from endmark.engine import frame_rejects
from endmark.errors import ConfigError
from endmark.frame.operator_settings import require_same_operators
from endmark.frame.projection import column
from endmark.frame.texts import rewritten
from endmark.spark.frame_inputs import require_streaming
from endmark.spark.interruption import shortly_interrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from endmark.frame.operator_settings import OperatorSettings
    from endmark.wire.renamed_punctuations import Renaming

TEXT, OF = "text", "of"
PUNCTUATIONS, DEAD_LETTERS, VIOLATIONS = "punctuations", "dead_letters", "violations"
_LONGEST = 10 * 366 * 86_400  # seconds; also keeps out what is infinite
_LOCAL_URI = re.compile(r"file:(?://)?(/(?!/).*)")
_ANY_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def directories(**named: Path | str | None) -> dict[str, Path]:
    """Return the directories that the arguments of a sink name, without those that are `None`.

    A URI would otherwise be the name of a new directory, such as `./s3a:/bucket/checkpoint`.

    Args:
        named: paths, or URIs of the scheme `file`, by the names of the arguments.

    Raises:
        ConfigError: a URI has another scheme or a host, or two arguments name one directory.
    """
    found = {name: _local(name, str(where)) for name, where in named.items() if where is not None}
    owner: dict[Path, str] = {}
    for name, directory in found.items():
        other = owner.setdefault(directory.resolve(), name)
        if other != name:
            raise ConfigError(f"{name}: {directory} is also {other}; name another directory")
    return found


def make_private(directory: Path) -> None:
    """Make a directory that only its own user can enter, unless it exists.

    Hadoop has our mask, but the first entry of a table and the files of `endmark/` get that of this process.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)


def _local(name: str, text: str) -> Path:
    if uri := _LOCAL_URI.fullmatch(text):
        return Path(uri[1])
    if _ANY_URI.match(text):
        raise ConfigError(
            f"{name}: {text} is no directory of this machine, and frames keep tables and checkpoints in "
            "file systems alone; name a path, such as one of a mounted volume"
        )
    return Path(text)


def start(
    frame: DataFrame,
    operators: Sequence[OperatorSettings],
    sink: Callable[[str], Callable[[DataFrame, int], None]],
    checkpoint: Path,
    trigger_seconds: float,
    *,
    available_now: bool,
) -> StreamingQuery:
    """Start the query of a frame.

    Args:
        frame: the streaming frame.
        operators: the joins and group-bys of the frame, in their order.
        sink: takes the app id of the checkpoint, and returns the function that is called with each batch and
            its number.
        checkpoint: a directory of the query's own, which is made if it does not exist.
        trigger_seconds: the least time from the start of one batch to the start of the next.
        available_now: whether the query ends when it has read all that was there at its start.
            `trigger_seconds` has no effect then.

    Raises:
        ConfigError: the frame is no stream, `trigger_seconds` is no number of seconds, or the checkpoint was
            made with other settings of a join or group-by.
    """
    interval = _interval(trigger_seconds)
    require_streaming("the frame", frame)
    make_private(checkpoint)
    with claimed(checkpoint) as app_id:  # two processes that start the query together get the same id
        follow_move(checkpoint.resolve() / "spark")
        require_same_operators(checkpoint, operators)
        writer = frame.writeStream.foreachBatch(shortly_interrupted(sink(app_id)))
        writer = writer.option("checkpointLocation", str(checkpoint.resolve() / "spark"))
        if available_now:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=interval).start()


def _interval(seconds: object) -> str:
    if not isinstance(seconds, int | float) or not 0 <= seconds < _LONGEST:
        raise ConfigError(f"trigger_seconds: {seconds!r} is no number of seconds; write one such as 0.5")
    return f"{round(seconds * 1000)} milliseconds"


@contextmanager
def apart(batch: DataFrame, punctuations: str, renaming: Renaming) -> Iterator[tuple[DataFrame, DataFrame]]:
    """Yield the rows of a batch, and its control rows as columns `TEXT` and `OF`, their kind.

    The texts use the present names of columns. Both frames are persisted, so no step is computed twice.

    Args:
        batch: the batch.
        punctuations: the name of the column of punctuations.
        renaming: the change of the column names since the punctuations were written.
    """
    text = column(punctuations)
    batch.persist(StorageLevel.MEMORY_AND_DISK)
    control = batch.where(text.isNotNull()).select(text)
    texts = rewritten(control, punctuations, renaming).toDF(TEXT).withColumn(OF, _kind(column(TEXT)))
    texts.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield batch.where(text.isNull()).drop(punctuations), texts
    finally:
        texts.unpersist()
        batch.unpersist()


def _kind(text: Column) -> Column:
    """The kind of a control row by its text: a dead letter, a violation or a punctuation."""

    def begins(mark: str) -> Column:
        return text.startswith(f'{{"{mark}": ')

    marked = F.when(begins(frame_rejects.DEAD_LETTER), DEAD_LETTERS).when(
        begins(frame_rejects.VIOLATION), VIOLATIONS
    )
    return marked.otherwise(PUNCTUATIONS)
