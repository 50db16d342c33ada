"""One stage of a pipeline: its inputs, their key, and the columns of its results."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import dropwhile
from typing import TYPE_CHECKING

from endmark.operators.stream_join.presets import PRESETS, Propagation
from endmark.pipeline.result_steps import SteppedResults, stepped_results
from endmark.pipeline.sources import COORDINATES
from endmark.pipeline.steps.aggregate import AggregateStep
from endmark.pipeline.steps.join import JoinStep
from endmark.pipeline.steps.lookup import LookupStep
from endmark.pipeline.steps.rows import RowStep
from endmark.types import ColumnType, JoinType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import timedelta

    from endmark.pipeline.flow import StageSteps
    from endmark.pipeline.model import Pipeline
    from endmark.pipeline.steps.lookup import Lookup
    from endmark.row_steps import RowStep as CheckedRowStep


@dataclass(frozen=True, eq=False)
class Stage:
    """The part of a pipeline on one key: a join of its inputs, or one input that no join takes.

    An input is a stream, or the join of the stage before, whose results are then a *derived stream* of the
    name of that join. Its columns keep the names that they have in results. Its event time is that of the
    first input of that join, which has a row in every result.

    Args:
        pipeline: the pipeline.
        steps: the steps of the stage.
        earlier: the stage before; `None` for the first one.
    """

    pipeline: Pipeline
    steps: StageSteps
    earlier: Stage | None = None

    @property
    def place(self) -> str:
        """The place of the join in the pipeline file."""
        return f"steps.{self.steps.join}"

    @property
    def join(self) -> JoinStep | None:
        """The join; `None` without one."""
        step = self.pipeline.steps.get(self.steps.join or "")
        return step if isinstance(step, JoinStep) else None

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs, in the order of the join's."""
        return tuple(self.steps.paths)

    @property
    def before(self) -> tuple[Stage, ...]:
        """The stages before this one, in order."""
        return () if self.earlier is None else (*self.earlier.before, self.earlier)

    @property
    def streams(self) -> tuple[str, ...]:
        """The inputs that are streams or unions."""
        return tuple(name for name in self.inputs if name in self.pipeline.inputs)

    @property
    def derived(self) -> str | None:
        """The input that has the results of the stage before; `None` in the first stage."""
        return None if self.earlier is None else self.earlier.steps.join

    @property
    def sides(self) -> tuple[str, ...]:
        """The streams of this stage and of those before, in the order of the columns of results."""
        return self._streams(self.inputs, lambda earlier: earlier.sides)

    @property
    def shown_inputs(self) -> tuple[str, ...]:
        """The inputs whose columns results have: the left one of a semi join, and otherwise all."""
        return self.inputs[:1] if self.join is not None and self.join.type is JoinType.SEMI else self.inputs

    @property
    def shown(self) -> tuple[str, ...]:
        """The streams whose columns results have."""
        return self._streams(self.shown_inputs, lambda earlier: earlier.shown)

    @property
    def promising(self) -> tuple[str, ...]:
        """The streams whose promises restrict columns of results: those shown and hidden by semi joins."""
        found = self._streams(self.shown_inputs, lambda earlier: earlier.promising)
        return (*found, *(given for given in self.streams if given not in self.shown_inputs))

    def promised_column(self, stream: str, column: str) -> str | None:
        """Return the column of results that a promise restricts, given one of an input of this stage.

        Results of a semi join have no column of the right stream. Its promises on the key are announced for
        the key of the left one, and its other promises are not announced: `None`.
        """
        if stream in self.shown_inputs:
            return f"{stream}_{column}"
        if column not in self.key:
            return None
        return self.key_columns(self.shown_inputs[0])[self.key.index(column)]

    @property
    def present_inputs(self) -> tuple[str, ...]:
        """The inputs that have a row in every result."""
        if self.join is None:
            return self.inputs
        first, *others = self.inputs
        absent = {first} if self.join.type.keeps_right else set()
        absent |= set(others) if self.join.type.keeps_left else set()
        return tuple(given for given in self.shown_inputs if given not in absent)

    @property
    def present(self) -> tuple[str, ...]:
        """The streams that have a row in every result."""
        return self._streams(self.present_inputs, lambda earlier: earlier.present)

    def _streams(self, inputs: Sequence[str], derived: Callable[[Stage], tuple[str, ...]]) -> tuple[str, ...]:
        """Return streams in the place of inputs; `derived` has those of the derived stream."""
        found: list[str] = []
        for given in inputs:
            found += derived(self.earlier) if self.earlier and given == self.derived else (given,)
        return tuple(found)

    def window_of(self, given: str) -> timedelta | None:
        """Return the event time for which a row of an input stays joinable; `None` is for ever."""
        return None if self.join is None else self.join.window_of(self.join.inputs[self.inputs.index(given)])

    def window_field(self, given: str) -> str:
        """Return the field that has the window of an input of the join."""
        return (
            "" if self.join is None else f"{self.place}.window.{self.join.inputs[self.inputs.index(given)]}"
        )

    def preserved(self, given: str) -> bool:
        """Return whether rows of an input are results even without a partner."""
        if self.join is None:
            return False
        return self.join.type.keeps_right if self.inputs.index(given) else self.join.type.keeps_left

    def timed_by(self, given: str) -> str:
        """Return the stream whose event time is that of an input's rows: the input itself, if it is one."""
        if self.earlier is None or given != self.derived:
            return given
        return self.earlier.timed_by(self.earlier.inputs[0])

    def time_of(self, given: str) -> str:
        """Return the column of the event time of an input's rows, by its name in results."""
        stream = self.timed_by(given)
        return f"{stream}_{self.pipeline.inputs[stream].event_time.column}"

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the join key, or of the key of one input alone."""
        return self.key_place[1]

    @cached_property
    def key_place(self) -> tuple[str, tuple[str, ...]]:
        """The field that names the key, and the columns of the key."""
        if self.join is not None:
            return f"{self.place}.on", self.join.on
        if self.earlier is not None:
            # Nothing closes this key, which only spreads rows over buckets. It is null in no row.
            return self.earlier.key_place
        return self._key_alone()

    def _key_alone(self) -> tuple[str, tuple[str, ...]]:
        """Return the first field that gives one input alone a key, and the columns of this key."""
        pipeline, (name,) = self.pipeline, self.inputs
        stream = pipeline.inputs[name]
        rule = stream.closes.on if stream.closes else ()
        lookups = pipeline.lookups_of(name)[:1]
        by = tuple(column.name for lookup in lookups for column in pipeline.asked_by(lookup).key)
        deduplicated, values = self._deduplicated_alone(name)
        columns, there = pipeline.stream_columns(name), dict(self.columns_of(name))
        spreads = all(f"{name}_{column}" in there and not columns[column].nullable for column in by)
        fields = {
            **{
                f"steps.{each}.aggregate.by": self._grouped_alone(name, each) for each in pipeline.flow.groups
            },
            **{f"tables.{each}.key": table.key for each, table in pipeline.tables.items() if table.key},
            f"streams.{name}.unique": stream.unique,
            f"streams.{name}.clustered": stream.clustered,
            f"streams.{name}.ordered": tuple(stream.ordered),
            f"streams.{name}.closes.on": rule if stream.could_be_keys(rule) == rule else (),
            f"streams.{name}.punctuated_on": stream.could_be_keys(stream.punctuated_on),
            f"steps.{deduplicated}.deduplicate.by": values,
            # Nothing closes these. They only spread rows over buckets, each of which then reads its own part
            # of the relation. No row may lack the key, so a nullable column is none, nor one that is lost.
            **{f"{pipeline.place_of(lookup)}.key": by if spreads else () for lookup in lookups},
            f"streams.{name}.event_time.column": (stream.event_time.column,),
        }
        return next((field, columns) for field, columns in fields.items() if columns)

    def _grouped_alone(self, stream: str, step: str) -> tuple[str, ...]:
        """Return the columns by which an aggregate groups a stream alone; none if not all are its own."""
        pipeline, aggregate = self.pipeline, self.pipeline.steps[step]
        by = aggregate.aggregate.by if isinstance(aggregate, AggregateStep) else ()
        own = tuple(name.removeprefix(f"{stream}.") for name in by)
        others = [name for name in by if name not in pipeline.stream_columns(stream)]
        derived = {f"{stream}_{name}" for name in own}
        if any(derived & step.derived.keys() for step in self.looked_up_steps(stream).values()):
            return ()
        known = {column for relation in pipeline.relations.values() for column in relation.columns}
        if any(name.partition(".")[0] in pipeline.relations or name in known for name in others):
            return ()
        return own

    def _deduplicated_alone(self, stream: str) -> tuple[str, tuple[str, ...]]:
        """Return the step that deduplicates a stream, and those columns of its `by` that are never null."""
        found = self.pipeline.deduplicate_of(stream)
        if found is None:
            return "", ()
        (step, declared), columns = found, self.pipeline.stream_columns(stream)
        return step, tuple(name for name in declared.by if name in columns and not columns[name].nullable)

    def key_columns(self, given: str) -> tuple[str, ...]:
        """Return the columns of the key in an input's rows, by their names in results.

        Raises:
            ValueError: rows of a derived stream have no such column, or several streams have one.
        """
        if self.earlier is None or given != self.derived:
            return tuple(f"{given}_{name}" for name in self.key)
        return tuple(self._derived_column(self.earlier, name) for name in self.key)

    def _derived_column(self, earlier: Stage, name: str) -> str:
        """Return the column of a derived stream that a column of the key is, by its name in results."""
        if name in earlier.key:  # equal in all inputs that are there
            return earlier.key_columns(earlier.inputs[0])[earlier.key.index(name)]
        found = [origin for origin, columns in earlier.origins.items() if name in columns]
        field, _ = self.key_place
        if not found:
            there = dict.fromkeys(column for columns in earlier.origins.values() for column in columns)
            raise ValueError(f"{field}: {self.derived} has no column {name!r}; it has {', '.join(there)}")
        if len(found) > 1:
            several = " and ".join(found)
            raise ValueError(
                f"{field}: {name!r} of {self.derived} may be that of {several}; drop it in a row step of "
                f"{', or of '.join(found)}, or derive it there under another name"
            )
        return f"{found[0]}_{name}"

    @property
    def same_key(self) -> tuple[int, ...]:
        """The places of the key's columns in the key of the stage before; empty if that is another key."""
        if self.earlier is None or self.derived is None:
            return ()
        before = self.earlier.key_columns(self.earlier.inputs[0])
        own = self.key_columns(self.derived)
        return tuple(map(before.index, own)) if set(own) == set(before) else ()

    @property
    def announced_columns(self) -> tuple[str, ...]:
        """The columns of results that announced patterns may restrict."""
        found: list[str] = []
        for given in self.shown_inputs:
            own = self.pipeline.inputs[given].promised_on if given in self.streams else ()
            found += [*self.key_columns(given), *(f"{given}_{column}" for column in own)]
        if self.earlier is not None and self.derived in self.shown_inputs:
            found += self.earlier.announced_columns
        return tuple(dict.fromkeys(found))

    @property
    def promised_beside_key(self) -> tuple[str, ...]:
        """The columns that promises of the derived stream may restrict, without those of the key."""
        if self.earlier is None or not self.earlier.announces:
            return ()
        return tuple(column for column in self.earlier.announced_columns if self.key_name(column) is None)

    def key_name(self, column: str) -> str | None:
        """Return the column of the key that a column of a derived stream always equals; `None` without one.

        Args:
            column: the column, by its name in results.
        """
        if self.earlier is None or self.derived is None:
            return None
        equal = self.earlier.equal_columns(column)
        own = zip(self.key, self.key_columns(self.derived), strict=True)
        return next((name for name, key_column in own if key_column in equal), None)

    @property
    def present_keys(self) -> frozenset[str]:
        """The columns of the key that are null in no result, by their names there."""
        return frozenset(column for given in self.present_inputs for column in self.key_columns(given))

    @property
    def key_types(self) -> dict[str, ColumnType]:
        """The types of the key's columns, by name."""
        return dict(zip(self.key, self.kinds_of(self.inputs[0]), strict=True))

    def kinds_of(self, given: str) -> list[ColumnType]:
        """Return the types of the key's columns in an input's rows."""
        columns = dict(self.arriving(given))
        return [columns[name] for name in self.key_columns(given)]

    def equal_columns(self, column: str) -> list[str]:
        """Return the columns of results that equal a column in every result, with itself."""
        alike = [column] if self.earlier is None else self.earlier.equal_columns(column)
        for place in range(len(self.key)):
            same = [self.key_columns(given)[place] for given in self.present_inputs]
            if not set(alike).isdisjoint(same):
                return list(dict.fromkeys([*alike, *same]))
        return alike

    def arriving(self, given: str) -> list[tuple[str, ColumnType]]:
        """Return the columns of an input's rows before its lookups, named as in results.

        Those of a stream are the columns behind its row steps, then the record's coordinates.
        """
        if self.earlier is not None and given == self.derived:
            return self.earlier.columns
        return _of_stream(given, self.pipeline.stream_columns(given))

    def columns_of(self, given: str) -> list[tuple[str, ColumnType]]:
        """Return the columns of an input behind its lookups, named as in results. A name may stand twice.

        A name is `<stream or relation>_<column>`. The columns of a stream come first, then those of its
        relations in the order of lookups, then the record's coordinates. A derived stream has its own ones
        before those of its relations.
        """
        return list(self._behind_steps[given].columns)

    def columns_behind(self, name: str) -> list[tuple[str, ColumnType]]:
        """Return the columns of rows of a stream, or of a step on its path, in the order of `columns_of`."""
        stream, path = self.pipeline.flow.path_to(name)
        if all(isinstance(self.pipeline.steps[each], RowStep) for each in path):
            return _of_stream(stream, self.pipeline.row_columns(name))
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
        return {given: self._rows_behind(given, path) for given, path in self.steps.paths.items()}

    def _rows_behind(self, given: str, path: Sequence[str]) -> SteppedResults:
        """Return the columns of an input's rows behind steps, and those of these that are behind a lookup."""
        columns, origins = self.arriving(given), self.origins_of(given)
        end = len(columns) if given == self.derived else len(columns) - len(COORDINATES)
        own, coordinates = columns[:end], columns[end:]
        found: list[CheckedRowStep] = []
        lost = set[str]()
        for name in dropwhile(lambda each: isinstance(self.pipeline.steps[each], RowStep), path):
            step = self.pipeline.steps[name]
            if isinstance(step, LookupStep):
                own += self._found_by([step.lookup])
                origins[step.lookup.relation] = self._added(step.lookup.relation)
            elif isinstance(step, RowStep):
                _check_looked_up(name, step, given, of_a_join=given == self.derived)
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
        declared = self.pipeline.relations[relation]
        return {name: kind for name, kind in declared.columns.items() if name not in declared.key}

    @property
    def columns(self) -> list[tuple[str, ColumnType]]:
        """The columns of results, behind the row steps of the join. A name may stand twice."""
        return list(self._stepped.columns)

    @property
    def joined_columns(self) -> list[tuple[str, ColumnType]]:
        """The columns of results in front of the row steps of the join. A name may stand twice."""
        return [column for given in self.shown_inputs for column in self.columns_of(given)]

    @property
    def row_steps(self) -> tuple[CheckedRowStep, ...]:
        """The row steps behind the join, over columns named as in results.

        Raises:
            ConfigError: one of them is wrong.
        """
        return self._stepped.steps

    @property
    def derived_columns(self) -> dict[str, ColumnType]:
        """The columns that row steps behind the join derive and keep. They come from the join."""
        return dict(self._stepped.origins.get(str(self.steps.join), {})) if self.steps.behind else {}

    @cached_property
    def _stepped(self) -> SteppedResults:
        steps = ((name, self.pipeline.steps[name]) for name in self.steps.behind)
        rows = {name: step for name, step in steps if isinstance(step, RowStep)}
        origins = self._origins(self.shown_inputs)
        return stepped_results(
            str(self.steps.join),
            () if self.join is None else self.join.on,
            self.joined_columns,
            origins,
            rows,
            self._staying if rows else {},
        )

    @property
    def _staying(self) -> dict[str, str]:
        """Why row steps behind the join cannot lose a column, by its name in results."""
        return {column: why for given in self.shown_inputs for column, why in self._staying_of(given).items()}

    def _staying_of(self, given: str) -> dict[str, str]:
        """Return why row steps behind lookups or the join cannot lose a column of an input's rows."""
        found: dict[str, str] = {}
        for stream in self._streams([given], lambda earlier: earlier.shown):
            for member in self.pipeline.flow.members_of(stream):
                declared = self.pipeline.streams[member]
                rule = declared.closes.on if declared.closes else ()
                found |= {f"{stream}_{name}": f"in streams.{member}.closes.on" for name in rule}
                punctuated = f"in streams.{member}.punctuated_on"
                found |= {f"{stream}_{name}": punctuated for name in declared.punctuated_on}
                found[f"{stream}_{declared.event_time.column}"] = "an event time"
        if self.join is None and self.earlier is None:
            return found | self._could_be_keys(given)
        return found | dict.fromkeys(self.key_columns(given), f"in {self.key_place[0]}")

    def _could_be_keys(self, stream: str) -> dict[str, str]:
        """Return the columns that may be the key of a stream alone, each with the field that names it."""
        declared = self.pipeline.inputs[stream]
        step, by = self._deduplicated_alone(stream)
        fields = {
            f"streams.{stream}.unique": declared.unique,
            f"streams.{stream}.clustered": declared.clustered,
            f"streams.{stream}.ordered": tuple(declared.ordered),
            f"steps.{step}.deduplicate.by": by,
        }
        return {f"{stream}_{name}": f"in {field}" for field, names in fields.items() for name in names}

    @property
    def pair_columns(self) -> dict[str, ColumnType]:
        """The columns that the `where` of the join may name: those of its inputs, in their order."""
        return dict(column for given in self.inputs for column in self.columns_of(given))

    def origins_of(self, given: str) -> dict[str, dict[str, ColumnType]]:
        """Return the columns of an input's rows before its lookups, by their stream or relation."""
        if self.earlier is not None and given == self.derived:
            return self.earlier.origins
        return {given: self.pipeline.stream_columns(given)}

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
            for given in self.shown_inputs
            for origin, columns in self._origins_found(given).items()
            for column in columns.keys() - behind[origin].keys()
        }

    def lost_before(self, given: str) -> list[str]:
        """Return the columns that row steps behind lookups of an input lose, named as in results."""
        found = [column for column, _ in self.arriving(given)]
        found += [column for column, _ in self._found_by(self.pipeline.lookups_of(given))]
        found += [column for step in self.looked_up_steps(given).values() for column in step.added]
        kept = dict(self.columns_of(given))
        return [column for column in found if column not in kept]

    def _origins_found(self, given: str) -> dict[str, dict[str, ColumnType]]:
        """Return the columns of an input's rows and of its lookups, as `origins` has them."""
        relations = [lookup.relation for lookup in self.pipeline.lookups_of(given)]
        return self.origins_of(given) | {relation: self._added(relation) for relation in relations}

    @property
    def hidden(self) -> dict[str, dict[str, ColumnType]]:
        """The columns that inputs have and results have not, as `origins` has them."""
        return self._origins([given for given in self.inputs if given not in self.shown_inputs])

    def _origins(self, inputs: Sequence[str]) -> dict[str, dict[str, ColumnType]]:
        found: dict[str, dict[str, ColumnType]] = {}
        for given in inputs:
            found |= self.origins_behind(given)
        return found

    @property
    def propagation(self) -> Propagation:
        """The rule by which the stage announces punctuations."""
        return Propagation.EARLY if self.join is None else PRESETS[self.join.preset].propagate

    @property
    def announces(self) -> bool:
        """True if patterns are announced. By other rules than `EARLY`, keys alone are, or nothing is."""
        return self.propagation is Propagation.EARLY

    def closes_keys(self, given: str) -> bool:
        """Return whether an input can close keys, by punctuations or by a declaration.

        A union can if all of its members can.
        """
        if given == self.derived:
            return bool(self.closers)
        return all(map(self.closes_key, self.pipeline.flow.members_of(given)))

    def closes_key(self, stream: str) -> bool:
        """Return whether a stream can close keys, as `closes_keys` does, or does its part in a union."""
        return bool(self.pipeline.streams[stream].ordered) or self._closes_without_order(stream)

    def _closes_without_order(self, stream: str) -> bool:
        declared, key = self.pipeline.streams[stream], set(self.key)
        rule = set(declared.closes.on) if declared.closes else set()
        promised = {*declared.punctuated_on, *(rule if rule <= key else ())}
        return bool(declared.unique or declared.clustered) or key <= promised

    def announces_keys(self, given: str) -> bool:
        """Return whether an input closes keys that are announced.

        A key that only orders have closed is not announced. So the next stage does not learn that it is over.
        """
        return all(map(self._closes_without_order, self.pipeline.flow.members_of(given)))

    @property
    def closers(self) -> dict[str, tuple[str, ...]]:
        """The streams of the stage before whose patterns close keys of the derived stream.

        Each has the columns of the key that its patterns restrict.
        """
        if self.earlier is None or not self.earlier.announces or self.derived is None:
            return {}
        found = {}
        for stream in self.earlier.promising:
            taking = self.pipeline.stage_of(stream)
            own = {
                column
                for column in self.pipeline.inputs[stream].promised_on
                if (shown := taking.promised_column(stream, column)) and self.key_name(shown) is not None
            }
            restricted = self.pipeline.restricted(stream, own)
            if self.same_key and stream in self.earlier.inputs and self.earlier.announces_keys(stream):
                restricted = self.earlier.key
            if restricted:
                found[stream] = restricted
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
