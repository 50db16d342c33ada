"""The columns of the rows of a stage: those that arrive, those behind each step, and those of its results."""

from __future__ import annotations

from functools import cached_property
from itertools import dropwhile
from typing import TYPE_CHECKING

from endmark.pipeline.key_alone import could_be_key_alone
from endmark.pipeline.result_steps import SteppedResults, stepped_results
from endmark.pipeline.sources import COORDINATES
from endmark.pipeline.steps.lookup import LookupStep
from endmark.pipeline.steps.rows import RowStep
from endmark.types import ColumnType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from endmark.expressions.row_steps import RowStep as CheckedRowStep
    from endmark.pipeline.stage import Stage
    from endmark.pipeline.steps.lookup import Lookup


class StageColumns:
    """The columns of the rows of one stage.

    A column of rows has a name and a type. Its name is that in results, `<stream or relation>_<column>`.

    Args:
        stage: the stage.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage, self._pipeline = stage, stage.pipeline

    def arriving(self, given: str) -> list[tuple[str, ColumnType]]:
        """Return the columns of an input's rows before its lookups, named as in results.

        Those of a stream are the columns behind its row steps, then the record's coordinates.
        """
        if self._stage.earlier is not None and given == self._stage.derived:
            return self._stage.earlier.columns.of_results
        return _of_stream(given, self._pipeline.stream_columns(given))

    def of(self, given: str) -> list[tuple[str, ColumnType]]:
        """Return the columns of an input behind its lookups, named as in results. A name may stand twice.

        The columns of a stream come first, then those of its
        relations in the order of lookups, then the record's coordinates. A derived stream has its own ones
        before those of its relations.
        """
        return list(self._behind_steps[given].columns)

    def behind(self, name: str) -> list[tuple[str, ColumnType]]:
        """Return the columns of rows of a stream, or of a step on its path, in the order of `of`."""
        stream, path = self._pipeline.flow.path_to(name)
        if all(isinstance(self._pipeline.steps[each], RowStep) for each in path):
            return _of_stream(stream, self._pipeline.row_columns(name))
        return list(self._rows_behind(stream, path).columns)

    def looked_up_steps(self, given: str) -> dict[str, CheckedRowStep]:
        """Return the row steps behind lookups of an input, in order, over columns named as in results.

        Raises:
            ConfigError: one of them is wrong.
        """
        return {step.name: step for step in self._behind_steps[given].steps}

    def origins_behind(
        self, given: str, path: Sequence[str] | None = None
    ) -> dict[str, dict[str, ColumnType]]:
        """Return the columns of an input's rows by their stream or relation.

        Args:
            given: the input.
            path: the steps that the rows have gone through; `None` for all of the input's.
        """
        origins = (self._behind_steps[given] if path is None else self._rows_behind(given, path)).origins
        return {origin: dict(columns) for origin, columns in origins.items()}

    @cached_property
    def _behind_steps(self) -> Mapping[str, SteppedResults]:
        """The rows of each input behind all of its steps."""
        return {given: self._rows_behind(given, path) for given, path in self._stage.steps.paths.items()}

    def _rows_behind(self, given: str, path: Sequence[str]) -> SteppedResults:
        """Return the columns of an input's rows behind steps, and those of these that are behind a lookup."""
        columns, origins = self.arriving(given), self.origins_of(given)
        end = len(columns) if given == self._stage.derived else len(columns) - len(COORDINATES)
        own, coordinates = columns[:end], columns[end:]
        found: list[CheckedRowStep] = []
        lost = set[str]()
        for name in dropwhile(lambda each: isinstance(self._pipeline.steps[each], RowStep), path):
            step = self._pipeline.steps[name]
            if isinstance(step, LookupStep):
                own += self._found_by([step.lookup])
                origins[step.lookup.relation] = self._added(step.lookup.relation)
            elif isinstance(step, RowStep):
                _check_looked_up(name, step, given, of_a_join=given == self._stage.derived)
                for column in step.derive:
                    if f"{given}_{column}" in lost:
                        raise ValueError(
                            f"steps.{name}.derive.{column}: a step before loses a column of this name; "
                            "name another one"
                        )
                stays = self._staying_of(given)
                stepped = stepped_results(given, (), [*own, *coordinates], origins, {name: step}, stays)
                lost |= {column for column, _ in own} - {column for column, _ in stepped.columns}
                own = [column for column in stepped.columns if column not in coordinates]
                origins = {origin: dict(columns) for origin, columns in stepped.origins.items()}
                found += stepped.steps
        return SteppedResults(tuple(found), [*own, *coordinates], origins)

    def _found_by(self, lookups: Sequence[Lookup]) -> list[tuple[str, ColumnType]]:
        """Return the columns that lookups add, named as in results."""
        relations = [lookup.relation for lookup in lookups]
        return [(f"{each}_{name}", kind) for each in relations for name, kind in self._added(each).items()]

    def _added(self, relation: str) -> dict[str, ColumnType]:
        """Return the columns of a relation that a lookup adds to rows."""
        declared = self._pipeline.relations[relation]
        return {name: kind for name, kind in declared.columns.items() if name not in declared.key}

    @property
    def of_results(self) -> list[tuple[str, ColumnType]]:
        """The columns of results, behind the row steps of the join. A name may stand twice."""
        return list(self._stepped.columns)

    @property
    def joined(self) -> list[tuple[str, ColumnType]]:
        """The columns of results in front of the row steps of the join. A name may stand twice."""
        return [column for given in self._stage.shown_inputs for column in self.of(given)]

    @property
    def row_steps(self) -> tuple[CheckedRowStep, ...]:
        """The row steps behind the join, over columns named as in results.

        Raises:
            ConfigError: one of them is wrong.
        """
        return self._stepped.steps

    @property
    def derived(self) -> dict[str, ColumnType]:
        """The columns that row steps behind the join derive and keep. They come from the join."""
        return (
            dict(self._stepped.origins.get(str(self._stage.steps.join), {}))
            if self._stage.steps.behind
            else {}
        )

    @cached_property
    def _stepped(self) -> SteppedResults:
        steps = ((name, self._pipeline.steps[name]) for name in self._stage.steps.behind)
        rows = {name: step for name, step in steps if isinstance(step, RowStep)}
        origins = self._origins(self._stage.shown_inputs)
        return stepped_results(
            str(self._stage.steps.join),
            () if self._stage.join is None else self._stage.join.on,
            self.joined,
            origins,
            rows,
            self._staying if rows else {},
        )

    @property
    def _staying(self) -> dict[str, str]:
        """Why row steps behind the join cannot lose a column, by its name in results."""
        return {
            column: why
            for given in self._stage.shown_inputs
            for column, why in self._staying_of(given).items()
        }

    def _staying_of(self, given: str) -> dict[str, str]:
        """Return why row steps behind lookups or the join cannot lose a column of an input's rows."""
        found: dict[str, str] = {}
        for stream in self._stage.streams_of([given], lambda earlier: earlier.shown):
            for member in self._pipeline.flow.members_of(stream):
                declared = self._pipeline.streams[member]
                rule = declared.closes.on if declared.closes else ()
                found |= {f"{stream}_{name}": f"in streams.{member}.closes.on" for name in rule}
                punctuated = f"in streams.{member}.punctuated_on"
                found |= {f"{stream}_{name}": punctuated for name in declared.punctuated_on}
                found[f"{stream}_{declared.event_time.column}"] = "an event time"
        if self._stage.join is None and self._stage.earlier is None:
            return found | could_be_key_alone(self._stage, given)
        return found | dict.fromkeys(self._stage.key_columns(given), f"in {self._stage.named_key[0]}")

    @property
    def of_pairs(self) -> dict[str, ColumnType]:
        """The columns that the `where` of the join may name: those of its inputs, in their order."""
        return dict(column for given in self._stage.inputs for column in self.of(given))

    def origins_of(self, given: str) -> dict[str, dict[str, ColumnType]]:
        """Return the columns of an input's rows before its lookups, by their stream or relation."""
        if self._stage.earlier is not None and given == self._stage.derived:
            return self._stage.earlier.columns.origins
        return {given: self._pipeline.stream_columns(given)}

    @property
    def origins(self) -> dict[str, dict[str, ColumnType]]:
        """The columns of results, by the stream, relation or join that they come from."""
        return {origin: dict(columns) for origin, columns in self._stepped.origins.items()}

    @property
    def lost(self) -> set[tuple[str, str]]:
        """The columns that row steps behind lookups or the join lose, each with its origin."""
        behind = self.origins
        return {
            (origin, column)
            for given in self._stage.shown_inputs
            for origin, columns in self._origins_found(given).items()
            for column in columns.keys() - behind[origin].keys()
        }

    def lost_before(self, given: str) -> list[str]:
        """Return the columns that row steps behind lookups of an input lose, named as in results."""
        found = [column for column, _ in self.arriving(given)]
        found += [column for column, _ in self._found_by(self._pipeline.lookups_of(given))]
        found += [column for step in self.looked_up_steps(given).values() for column in step.added]
        kept = dict(self.of(given))
        return [column for column in found if column not in kept]

    def _origins_found(self, given: str) -> dict[str, dict[str, ColumnType]]:
        """Return the columns of an input's rows and of its lookups, as `origins` has them."""
        relations = [lookup.relation for lookup in self._pipeline.lookups_of(given)]
        return self.origins_of(given) | {relation: self._added(relation) for relation in relations}

    @property
    def hidden(self) -> dict[str, dict[str, ColumnType]]:
        """The columns that inputs have and results have not, as `origins` has them."""
        return self._origins([given for given in self._stage.inputs if given not in self._stage.shown_inputs])

    def _origins(self, inputs: Sequence[str]) -> dict[str, dict[str, ColumnType]]:
        found: dict[str, dict[str, ColumnType]] = {}
        for given in inputs:
            found |= self.origins_behind(given)
        return found


def _check_looked_up(name: str, step: RowStep, given: str, *, of_a_join: bool) -> None:
    """Refuse what a row step behind a lookup cannot do."""
    if of_a_join:
        raise ValueError(
            f"steps.{name}.from: rows of {given} have been looked up; let this step stand between {given} "
            "and the lookup, or behind the next join"
        )
    if step.deduplicate is not None:
        raise ValueError(
            f"steps.{name}.deduplicate: it is not for rows that have been looked up; write it in a step in "
            "front of the lookup"
        )


def _of_stream(stream: str, columns: Mapping[str, ColumnType]) -> list[tuple[str, ColumnType]]:
    """Return the columns of a stream's rows by their names in results, then the record's coordinates."""
    return [
        *((f"{stream}_{name}", kind.required) for name, kind in columns.items()),
        *((f"{stream}_{name}", ColumnType.LONG) for name in COORDINATES),
    ]
