"""The steps of a frame, each with what becomes of its punctuations.

By Tucker's rules (Punctuated data streams, TKDE 2003). A punctuation is text in one column, in the shape of
`schemas/punctuation.v1.json`; docs/frames.md has the whole of it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Self

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from endmark.errors import ConfigError
from endmark.frame.grouping import declared_groups, grouped
from endmark.frame.lookup import LookupStage, looked_up
from endmark.frame.projection import column, origins_of, require_distinct, require_text
from endmark.frame.texts import rewritten
from endmark.spark.dataframe import stream_join
from endmark.wire.renamed_punctuations import Renaming

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from endmark.pipeline import Relation


class FrameSteps:
    """A streaming DataFrame, immutable, with a column of punctuations, and its steps.

    A row with text in that column is a control row, in which nothing else counts. Steps on rows are Spark's
    own expressions; texts are read when a join, a sink or `df` needs them, once for all steps before.

    Args:
        frame: has no two columns of one name.
        punctuations: its string column of punctuations, which stand behind all rows of their batch.

    Raises:
        ConfigError: a column is not what it must be.
    """

    def __init__(self, frame: DataFrame, punctuations: str) -> None:
        require_text(frame, punctuations)
        require_distinct(frame.columns)
        self._frame = frame
        self._punctuations = punctuations
        self._renaming = Renaming.none(self._rows)

    @property
    def punctuations(self) -> str:
        """The name of the column of punctuations."""
        return self._punctuations

    @property
    def columns(self) -> list[str]:
        """The names of all other columns."""
        return [name for name in self._frame.columns if name != self._punctuations]

    @property
    def df(self) -> DataFrame:
        """The frame with its punctuations in the names of its columns, for whatever is no step."""
        if not self._renaming.needed:
            return self._frame
        return rewritten(self._frame, self._punctuations, self._renaming)

    @property
    def rows(self) -> DataFrame:
        """The rows alone, for whatever has no use for punctuations; no text is read for it."""
        return self._frame.where(column(self._punctuations).isNull()).drop(self._punctuations)

    def where(self, condition: Column | str) -> Self:
        """The rows for which a condition is true. All punctuations pass: what will not come will not pass."""
        met = F.expr(condition) if isinstance(condition, str) else condition
        return self._with(self._frame.where(column(self._punctuations).isNotNull() | met), self._renaming)

    def select(self, *columns: Column | str) -> Self:
        """Keep these columns and that of punctuations, which need not be named.

        A punctuation passes if every column that it restricts is among them as it was; it says its new name
        then, the first one if it has several. Others end here.

        Raises:
            ConfigError: two columns have one name, or an expression makes other rows of a row.
        """
        text = column(self._punctuations)
        origins_of(self._frame, self._frame.select(*columns, text), "select")  # of all together, first
        wanted = [each if isinstance(each, str) else self._of_rows(each, "select") for each in columns]
        return self._projected(self._frame.select(*wanted, text), "select")

    def with_column(self, name: str, expression: Column) -> Self:
        """One more column, or another in place of one; punctuations that restrict that one end here.

        Raises:
            ConfigError: it is the column of punctuations, or an expression makes other rows of a row.
        """
        if name.lower() == self._punctuations.lower():  # one to Spark
            raise ConfigError(f"with_column: {name!r} is the column of punctuations; name another")
        origins_of(self._frame, self._frame.withColumn(name, expression), "with_column")
        made = self._frame.withColumn(name, self._of_rows(expression, "with_column"))
        return self._projected(made, "with_column")

    def lookup_join(
        self,
        relation: Relation,
        *,
        on: str | Sequence[str],
        how: str = "inner",
        prefix: str | None = None,
        strategy: str = "auto",
    ) -> Self:
        """The join with a relation as it is when a batch asks; each row waits for its match in its own batch.

        All punctuations pass: they speak of the frame's columns, which stay. A null has no match.

        Args:
            relation: has one row of a key; `endmark.pipeline.Relation`, as in a pipeline file.
            on: a column for each of the relation's key columns, in their order and of their types.
            how: `inner`, or `left`, which puts rows without a match beside nulls.
            prefix: of the relation's other columns in the result; its table's name unless said.
            strategy: what is read next, as in a pipeline's `lookup.strategy`.

        Raises:
            ConfigError: a column or an argument is not what it must be, or the table is not as declared.
            EndmarkError: the database does not answer.
        """
        keys = [on] if isinstance(on, str) else on
        named = relation.table if prefix is None else prefix
        stage = LookupStage.of(self._rows, self._punctuations, relation, keys, how, named, strategy)
        require_distinct([*self._frame.columns, *stage.added.names])
        origins = {name: name for name in self.columns} | dict.fromkeys(stage.added.names)
        return self._with(looked_up(self._frame, stage), self._renaming.then(origins))

    def stream_join(  # noqa: PLR0913  # each of them is a choice of its own
        self,
        other: FrameSteps,
        *,
        on: str | Sequence[str | tuple[str, str]],
        how: str = "inner",
        where: str | None = None,
        time: str | tuple[str, str],
        window: timedelta | None,
        lateness: timedelta = timedelta(0),
        preset: str = "auto",
        purge_every: int = 1,
        memory: int | None = None,
    ) -> Self:
        """Join this frame with another one.

        The punctuations of both frames free state. A punctuation comes out, in the names of the result, once
        no row in state can make a row that it matches.

        Args:
            other: the right side.
            on: the columns of the join key; a pair names the left and the right column.
            how: `inner`, `left`, `right`, `full` or `semi`.
            where: an SQL condition that pairs must meet; `None` is always met.
            time: the columns of event time; a pair names the left and the right one.
            window: event time for which a row of either side stays joinable; `None` is for ever.
            lateness: event time that a row may be older than the newest one.
            preset: the preset.
            purge_every: the number of punctuations that wait until state is purged.
            memory: bytes of rows that stay in memory; `None` is all.

        Raises:
            ConfigError: a column, the type of the join, the condition or the preset is not what it must be.
        """
        right = other._frame
        if other._punctuations != self._punctuations:
            right = right.withColumnRenamed(other._punctuations, self._punctuations)
            require_distinct(right.columns)
        joined = stream_join(
            self._frame,
            right,
            on=on,
            how=how,
            where=where,
            time=time,
            window=window,
            lateness=lateness,
            punctuations=self._punctuations,
            renamings=(self._renaming, other._renaming),
            preset=preset,
            purge_every=purge_every,
            memory=memory,
        )
        return type(self)(joined, self._punctuations)

    def aggregate(
        self,
        by: str | Sequence[str],
        *,
        ordered_by: str | Sequence[str] = (),
        running: bool = False,
        **measures: str | Mapping[str, str],
    ) -> Self:
        """Groups, each of which comes out once, as one row, when its key is closed.

        A punctuation that restricts columns of the key alone closes the keys it matches, and passes behind
        their groups; others end here. A row of a closed key, or with a null in it, is a violation, and in no
        group.

        Args:
            by: columns of the key: integers, booleans, dates, timestamps, strings or decimals.
            ordered_by: what `first` and `last` go by: columns of any type of a key, one after the other,
                nulls first; rows that are equal in all of them go by the measured value.
            running: a group comes out after each batch that had rows of it, as it is by then, and at last
                when its key is closed. Columns `final` and `batch`, a number, tell its rows apart: the one
                of the greatest batch is what it is.
            measures: by their names, as in a pipeline file: `"count"`, or such as `{"sum": "price"}`.

        Raises:
            ConfigError: a column or a measure is not what it must be.
        """
        keys = [by] if isinstance(by, str) else list(by)
        places = [ordered_by] if isinstance(ordered_by, str) else list(ordered_by)
        declared = declared_groups(keys, measures, places, self._rows, running=running)
        measured = [each.column for each in declared.measures.values() if each.column]
        frame = self.select(*map(column, dict.fromkeys([*keys, *measured, *places])))
        groups, renaming = grouped(frame._frame, declared, places, self._punctuations, frame._renaming)
        return self._with(groups, renaming)

    @property
    def _rows(self) -> pa.Schema:
        fields = StructType()
        for field in self._frame.schema:
            if field.name != self._punctuations:
                fields = fields.add(field.name, field.dataType)  # which may be null in control rows
        return to_arrow_schema(fields, timezone="UTC")

    def _of_rows(self, expression: Column, step: str) -> Column:
        """Compute an expression on rows alone; it might fail on the other columns of a control row."""
        (name, was), *others = origins_of(self._frame, self._frame.select(expression), step)
        if was is not None or others:  # a plain column, or all of them
            return expression
        return F.when(column(self._punctuations).isNull(), expression).alias(name)

    def _projected(self, frame: DataFrame, step: str) -> Self:
        found = origins_of(self._frame, frame, step)
        if [name for name, was in found if was == self._punctuations] != [self._punctuations]:
            raise ConfigError(
                f"{step}: {self._punctuations!r} is the column of punctuations, which comes along by itself; "
                "leave it out, and name columns instead of *"
            )
        require_distinct([name for name, _ in found])
        origins = {name: was for name, was in found if name != self._punctuations}
        return self._with(frame, self._renaming.then(origins))

    def _with(self, frame: DataFrame, renaming: Renaming) -> Self:
        made = type(self).__new__(type(self))
        made._frame, made._punctuations, made._renaming = frame, self._punctuations, renaming
        return made
