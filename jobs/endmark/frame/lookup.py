"""The lookup join on a frame. All rows of a batch are looked up in that batch, so no row waits."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Self

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType

from endmark.engine.channels import gathered
from endmark.engine.ingest.frame_rows import in_utc
from endmark.engine.segment_cache import cache_directory
from endmark.errors import ConfigError
from endmark.frame.projection import column
from endmark.operators.lookup.held_pages import HeldPages
from endmark.operators.lookup.join import LookupJoin, LookupSpec, Misses, Source
from endmark.operators.lookup.read_timing import measure
from endmark.operators.lookup.strategies import STRATEGIES, require_readable
from endmark.operators.stream_join.results import Results
from endmark.relation.sql import SqlRelation
from endmark.spark.dataframe import numbered
from endmark.state.keys import KeySpec
from endmark.state.store import MemoryBlobs, SegmentStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from endmark.pipeline import Relation
    from endmark.relation.contract import PageDirectory, RelationReader

_PAGE_ROWS = 500  # the default of a pipeline's `lookup.page_rows`
# The rows that are looked up together. With more rows, fewer keys are asked for twice, and keys are nearer to
# each other in the table. Spark's default batch has 10,000 rows.
_ROWS_AT_ONCE = 1 << 18
_FATES = {"inner": "drop", "left": "nulls"}


@dataclass(frozen=True)
class LookupStage:
    """A function for `mapInArrow` that adds the columns of R to a frame's rows, and passes on control rows.

    It takes the columns by position: those of the frame's rows, then the column of punctuations.

    Args:
        spec: the specification of the lookup, with the schema of the frame's rows.
        source: the relation.
        reading: makes a context that is entered around the reads of a batch.
        punctuations: the name of the column of punctuations, which is the last column of the result.
        paged: makes a directory of R's pages, given the number of rows on a page.
        name: tells the stage from others. Tasks of one Python process share its pages of R.
    """

    spec: LookupSpec
    source: Source
    reading: Callable[[], AbstractContextManager[None]]
    punctuations: str
    paged: Callable[[int], PageDirectory]
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    @classmethod
    def of(
        cls,
        rows: pa.Schema,
        punctuations: str,
        relation: Relation,
        on: Sequence[str],
        how: str,
        prefix: str,
        strategy: str,
    ) -> Self:
        """Plan a lookup. This checks the table and measures the costs of its reads.

        Args:
            rows: the frame's columns without the column of punctuations.
            punctuations: the name of the frame's column of punctuations.
            relation: the table to look up in.
            on: a column of the frame for each of the relation's key columns, in their order.
            how: `inner` drops a row without a match, `left` puts it beside nulls.
            prefix: the result has the relation's other columns as `<prefix>_<column>`.
            strategy: the name of the strategy that chooses the reads.

        Raises:
            ConfigError: an argument is wrong, or the table does not fit its declaration.
            RelationUnreachableError: the database does not answer.
        """
        for name, value, known in (("how", how, list(_FATES)), ("strategy", strategy, list(STRATEGIES))):
            if value not in known:
                raise ConfigError(f"{name}: {value!r} is not one of {', '.join(known)}")
        reader = SqlRelation(relation)
        reader.check()
        spec = cls.spec_of(rows, reader, on, how, prefix)
        directory = reader.directory(_PAGE_ROWS)
        require_readable("strategy", strategy, directory.unpaged)
        source = Source(reader, directory, strategy, measure(reader, directory), unique=True)
        return cls(spec, source, reader.batch, punctuations, reader.directory)

    @classmethod
    def spec_of(
        cls, rows: pa.Schema, reader: RelationReader, on: Sequence[str], how: str, prefix: str
    ) -> LookupSpec:
        """Return the checked specification of a lookup.

        Args:
            rows: the columns of the frame's rows.
            reader: reads the relation.
            on: a column of the frame for each of the relation's key columns, in their order.
            how: `inner` or `left`.
            prefix: the result has the relation's other columns as `<prefix>_<column>`.

        Raises:
            ConfigError: `on` does not fit the relation's key.
        """
        if len(on) != len(reader.key):
            raise ConfigError(
                f"on: it names {len(on)} columns, but the relation's key has {', '.join(reader.key)}; name "
                "one of the frame for each, in this order"
            )
        for mine, theirs in zip(on, reader.key, strict=True):
            _require_equal_types(rows, mine, reader.schema, theirs)
        renamed = {name: f"{prefix}_{name}" for name in reader.schema.names if name not in reader.key}
        key = KeySpec.of(list(on), [rows.field(name).type for name in on])
        return LookupSpec(rows, key, renamed, Misses(_FATES[how]))  # type: ignore[arg-type]

    @property
    def added(self) -> pa.Schema:
        """The columns of R that the result has, under their new names."""
        relation = self.source.reader.schema
        return pa.schema([relation.field(name).with_name(to) for name, to in self.spec.renamed.items()])

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # All rows of a batch are answered before it ends, so nothing is ever stored.
        store = SegmentStore(MemoryBlobs(), cache_directory())
        beside_nulls = Results(self.spec.schema, self.added)
        with self.reading():
            pages = self._pages()
            join = LookupJoin(self.spec, self._source_with(pages.directory), store)
            for batch in gathered(batches, _ROWS_AT_ONCE):
                *columns, texts = batch.columns
                texts = texts.cast(pa.string())  # they are large strings if the session says so
                rows = in_utc(columns, self.spec.schema)
                if texts.null_count < len(texts):
                    control = beside_nulls.left_alone(rows.filter(texts.is_valid()))
                    yield control.append_column(self.punctuations, texts.drop_null())
                    rows = rows.filter(texts.is_null())
                output = join.process(rows, time.time_ns() // 1_000, drain=True)
                pages.note(output.figures)
                for found in output.joined:
                    yield found.append_column(self.punctuations, pa.nulls(found.num_rows, pa.string()))

    def _pages(self) -> HeldPages:
        """Return the pages of R in this process. They are cut anew if R has outgrown them."""
        held = _pages_of_stage(self.name)
        if not held:
            held.append(HeldPages(_PAGE_ROWS, self.source.directory))
        elif held[0].is_outgrown:
            held[0] = HeldPages(_PAGE_ROWS, self.paged(_PAGE_ROWS))
        return held[0]

    def _source_with(self, directory: PageDirectory) -> Source:
        """Return the source with other pages. The cost of a page scales with its size."""
        costs = self.source.costs.cut(len(self.source.directory), len(directory))
        return replace(self.source, directory=directory, costs=costs)


@lru_cache(maxsize=64)
def _pages_of_stage(name: str) -> list[HeldPages]:
    """Return the list that has the pages of a stage in this process, once a task has begun."""
    return []


def looked_up(frame: DataFrame, stage: LookupStage) -> DataFrame:
    """Return the frame after the lookup of a stage."""
    fields = frame.drop(stage.punctuations).schema
    for added in from_arrow_schema(stage.added):
        fields = fields.add(added)
    needed = frame.select(*map(column, [*stage.spec.schema.names, stage.punctuations]))
    return numbered(needed).mapInArrow(stage.__call__, fields.add(stage.punctuations, StringType()))


def _require_equal_types(rows: pa.Schema, name: str, relation: pa.Schema, key: str) -> None:
    if name not in rows.names:
        raise ConfigError(f"on: the frame has no column {name!r}; it has {', '.join(rows.names)}")
    mine, theirs = rows.field(name).type, relation.field(key).type
    if mine != theirs:
        raise ConfigError(f"on: column {name!r} is {mine}, the relation's {key!r} is {theirs}; cast it")
