"""The steps of a frame, and how punctuations pass each of them.

The steps follow Tucker's rules (Punctuated data streams, TKDE 2003). A punctuation is a text in one column,
in the shape of `schemas/punctuation.v1.json`. docs/frames.md describes all of it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Self

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from endmark.errors import ConfigError
from endmark.frame.grouping import declared_groups, grouped
from endmark.frame.lookup import LookupStage, looked_up
from endmark.frame.operator_settings import OperatorSettings
from endmark.frame.projection import column, origins_of, require_distinct, require_native, require_text
from endmark.frame.texts import rewritten
from endmark.pipeline import Relation
from endmark.spark.classic import require_classic
from endmark.spark.dataframe import joined_frames
from endmark.spark.frame_inputs import arrow_columns, names_of, require_bytewise
from endmark.wire.renamed_punctuations import Renaming

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame


class FrameSteps:
    """An immutable streaming DataFrame with a column of punctuations, and its steps.

    A row with a text in that column is a control row, whose other columns do not count. Steps on rows are
    Spark's own expressions. The texts are read only when a join, a sink or `df` needs them, once for all
    steps before.

    Args:
        frame: any streaming DataFrame whose columns have different names.
        punctuations: the name of its string column of punctuations. A punctuation stands behind all rows of
            its batch.

    Raises:
        ConfigError: the frame has no such column of strings, or two columns of the same name, or belongs to a
            session of Spark Connect.
    """

    def __init__(self, frame: DataFrame, punctuations: str) -> None:
        require_classic(frame)
        require_text(frame, punctuations)
        require_distinct(frame.columns)
        self._frame = frame
        self._punctuations = punctuations
        self._renaming = Renaming.none(self._rows)
        self._operators: tuple[OperatorSettings, ...] = ()

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
        """The whole frame, whose punctuations use the present column names, for work that no step does."""
        if not self._renaming.needed:
            return self._frame
        return rewritten(self._frame, self._punctuations, self._renaming)

    @property
    def rows(self) -> DataFrame:
        """The rows alone, for work that needs no punctuations. No text is read for it."""
        return self._frame.where(column(self._punctuations).isNull()).drop(self._punctuations)

    def where(self, condition: Column | str) -> Self:
        """Keep the rows for which a condition is true. All punctuations pass: fewer rows break no promise.

        Raises:
            ConfigError: the condition calls a Python function.
        """
        met = F.expr(condition) if isinstance(condition, str) else condition
        require_native(self._frame.select(met), "where")
        return self._with(self._frame.where(column(self._punctuations).isNotNull() | met), self._renaming)

    def select(self, *columns: Column | str) -> Self:
        """Keep these columns, and the column of punctuations without naming it.

        A punctuation passes if every column that it restricts is among them with unchanged values. It then
        uses the new name of the column, or the first new name if the column has several. Others end here.

        Raises:
            ConfigError: two columns have the same name, an expression makes several rows of a row or one of
                several, or it calls a Python function.
        """
        text = column(self._punctuations)
        # Spark analyses all columns together, since each analysis takes as long as the frame is wide.
        projection = self._frame.select(*columns, text)
        found = origins_of(self._frame, projection, "select")[:-1]
        require_native(projection, "select")
        if len(found) == len(columns):
            wanted = [
                each if was is not None or isinstance(each, str) else self._beside_nulls(each, name)
                for each, (name, was) in zip(columns, found, strict=True)
            ]
        else:  # one of them, such as `F.col("struct.*")`, is several columns
            wanted = [each if isinstance(each, str) else self._of_rows(each, "select") for each in columns]
        return self._projected(self._frame.select(*wanted, text), "select")

    def with_column(self, name: str, expression: Column) -> Self:
        """Add or replace a column. Punctuations that restrict a replaced column end here.

        Raises:
            ConfigError: it is the column of punctuations, or the expression makes several rows of a row or
                one of several, or calls a Python function.
        """
        if name.lower() == self._punctuations.lower():  # Spark ignores the case of letters
            raise ConfigError(f"with_column: {name!r} is the column of punctuations; name another")
        origins_of(self._frame, self._frame.withColumn(name, expression), "with_column")
        made = self._frame.withColumn(name, self._of_rows(expression, "with_column"))
        return self._projected(made, "with_column")

    def drop(self, *names: str) -> Self:
        """Leave out columns. Punctuations that restrict one of them end here.

        Raises:
            ConfigError: the frame has no such column.
        """
        self._require_columns("drop", names)
        return self.select(*(column(name) for name in self.columns if name not in names))

    def with_columns_renamed(self, names: Mapping[str, str]) -> Self:
        """Give columns other names, which punctuations use from here on.

        Args:
            names: the new names by the present ones.

        Raises:
            ConfigError: the frame has no such column, or two columns would have the same name.
        """
        self._require_columns("with_columns_renamed", names)
        return self.select(*(column(name).alias(names.get(name, name)) for name in self.columns))

    def lookup_join(
        self,
        relation: Relation,
        *,
        on: str | Sequence[str],
        how: str = "inner",
        prefix: str | None = None,
        strategy: str = "auto",
    ) -> Self:
        """Join the rows with a relation, as it is when their batch reads it.

        Each row gets its match in its own batch. All punctuations pass, since they restrict columns of the
        frame, which all stay. A row with a null in `on` has no match.

        Args:
            relation: the relation, as in a pipeline file. It must have one row of a key at most.
            on: a column for each of the relation's key columns, in their order and of their types.
            how: `inner`, or `left`, which puts rows without a match beside nulls.
            prefix: the result has the relation's other columns as `<prefix>_<column>`; `None` takes the name
                of the table.
            strategy: the way to read the relation, as in a pipeline's `lookup.strategy`.

        Raises:
            ConfigError: an argument is wrong, or the table does not fit its declaration.
            EndmarkError: the database does not answer.
        """
        if not isinstance(relation, Relation):
            raise ConfigError(
                f"relation: it is a {type(relation).__name__}; make a Relation of endmark.pipeline, such as "
                "Relation(url=..., table=..., key=..., columns=...)"
            )
        keys = names_of("on", on)
        named = relation.table if prefix is None else prefix
        stage = LookupStage.of(self._rows, self._punctuations, relation, keys, how, named, strategy)
        require_bytewise(self._frame.schema, keys, "on")
        require_distinct([*self._frame.columns, *stage.added.names], "another prefix")
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

        The punctuations of both frames free state. The result has a punctuation, in its own column names,
        once no row in state can make a row that the punctuation matches.

        Args:
            other: the right side.
            on: the columns of the join key; a pair names the left and the right column.
            how: the type of the join: `inner`, `left`, `right`, `full` or `semi`.
            where: a condition that pairs must meet, in DuckDB's SQL; `None` for no condition.
            time: the column of event time; a pair names the left and the right column.
            window: the event time for which a row of either side stays joinable; `None` is for ever.
            lateness: the event time by which a row may be older than the newest row of its frame.
            preset: the name of the preset, as in a pipeline's `join.preset`.
            purge_every: the number of a frame's punctuations that wait until state is purged.
            memory: the bytes of rows that stay in memory; `None` keeps all rows in memory.

        Raises:
            ConfigError: a column, the type of the join, the condition or the preset is wrong, or `other` is a
                DataFrame.
        """
        _require_frame(other)
        right = other._frame
        if other._punctuations != self._punctuations:
            right = right.withColumnRenamed(other._punctuations, self._punctuations)
            require_distinct(right.columns)
        joined, settings = joined_frames(
            self._frame,
            right,
            (self._renaming, other._renaming),
            on=on,
            how=how,
            where=where,
            time=time,
            window=window,
            lateness=lateness,
            punctuations=self._punctuations,
            preset=preset,
            purge_every=purge_every,
            memory=memory,
        )
        made = type(self)(joined, self._punctuations)
        own = OperatorSettings("stream_join", settings)
        made._operators = (*self._operators, *other._operators, own)
        return made

    def aggregate(
        self,
        by: str | Sequence[str],
        *,
        ordered_by: str | Sequence[str] = (),
        running: bool = False,
        **measures: str | Mapping[str, str],
    ) -> Self:
        """Group the rows by a key. Each group comes out once, as one row, when its key is closed.

        A punctuation that restricts columns of the key alone closes the keys that it matches, and passes
        behind their groups. Others end here. A row whose key is closed or has a null is a violation, and in
        no group.

        Args:
            by: the columns of the key: integers, booleans, dates, timestamps, strings or decimals.
            ordered_by: the columns by which `first` and `last` order rows: of the types that a key may have,
                the first column first, nulls before all values. Rows that are equal in all of these columns
                are ordered by the measured value.
            running: whether a group also comes out after each batch that had rows of it, with its measures so
                far. All rows then have a column `final`, and a column `batch` with the number of the batch.
                The row of a group with the greatest `batch` is the newest.
            measures: the measures by name, spelled as in a pipeline file: `"count"` or `{"sum": "price"}`.

        Raises:
            ConfigError: a column or a measure is wrong.
        """
        keys, order = names_of("aggregate", by), names_of("ordered_by", ordered_by)
        declared = declared_groups(keys, measures, order, self._rows, running=running)
        measured = [each.column for each in declared.measures.values() if each.column]
        needed = list(dict.fromkeys([*keys, *measured, *order]))
        require_bytewise(self._frame.schema, needed, "aggregate")
        frame = self.select(*map(column, needed))
        groups, renaming, settings = grouped(
            frame._frame, declared, order, self._punctuations, frame._renaming, running=running
        )
        made = self._with(groups, renaming)
        made._operators = (*self._operators, OperatorSettings("aggregate", settings))
        return made

    @property
    def _rows(self) -> pa.Schema:
        fields = StructType()
        for field in self._frame.schema:
            if field.name != self._punctuations:
                fields = fields.add(field.name, field.dataType)  # nullable, since control rows have nulls
        return arrow_columns(fields)

    def _require_columns(self, step: str, names: Iterable[str]) -> None:
        if missing := [name for name in names if name not in self.columns]:
            raise ConfigError(
                f"{step}: the frame has no column {', '.join(map(str, missing))}; it has "
                f"{', '.join(self.columns)}"
            )

    def _of_rows(self, expression: Column, step: str) -> Column:
        """Compute an expression on rows alone, since it might fail on the other columns of a control row."""
        projection = self._frame.select(expression)
        (name, was), *others = origins_of(self._frame, projection, step)
        require_native(projection, step)
        if was is not None or others:  # the expression is a plain column, or all columns
            return expression
        return self._beside_nulls(expression, name)

    def _beside_nulls(self, expression: Column, name: str) -> Column:
        """Compute an expression under a name, and null for control rows."""
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
        made._operators = self._operators
        return made


def _require_frame(other: object) -> None:
    if not isinstance(other, FrameSteps):
        raise ConfigError(
            f"other: it is a {type(other).__name__}, which has no punctuations; make it a PunctuatedFrame "
            "with a string column of nulls"
        )
