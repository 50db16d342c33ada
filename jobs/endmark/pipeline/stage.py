"""One stage of a pipeline: its inputs, and the key by which they are joined."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from endmark.operators.stream_join.presets import PRESETS, Propagation
from endmark.pipeline.key_alone import key_alone
from endmark.pipeline.stage_columns import StageColumns
from endmark.pipeline.stage_promises import StagePromises
from endmark.pipeline.steps.join import JoinStep
from endmark.types import ColumnType, JoinType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from endmark.pipeline.flow import StageSteps
    from endmark.pipeline.model import Pipeline


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
    def field(self) -> str:
        """The field of the join in the pipeline file, such as `steps.matched`."""
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
        return self.streams_of(self.inputs, lambda earlier: earlier.sides)

    @property
    def shown_inputs(self) -> tuple[str, ...]:
        """The inputs whose columns results have: the left one of a semi join, and otherwise all."""
        return self.inputs[:1] if self.join is not None and self.join.type is JoinType.SEMI else self.inputs

    @property
    def shown(self) -> tuple[str, ...]:
        """The streams whose columns results have."""
        return self.streams_of(self.shown_inputs, lambda earlier: earlier.shown)

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
        return self.streams_of(self.present_inputs, lambda earlier: earlier.present)

    def streams_of(
        self, inputs: Sequence[str], derived: Callable[[Stage], tuple[str, ...]]
    ) -> tuple[str, ...]:
        """Return streams instead of inputs; `derived` has those of the derived stream."""
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
            "" if self.join is None else f"{self.field}.window.{self.join.inputs[self.inputs.index(given)]}"
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
        return self.named_key[1]

    @cached_property
    def named_key(self) -> tuple[str, tuple[str, ...]]:
        """The field that names the key, and the columns of the key."""
        if self.join is not None:
            return f"{self.field}.on", self.join.on
        if self.earlier is not None:
            # Nothing closes this key, which only spreads rows over buckets. It is null in no row.
            return self.earlier.named_key
        return key_alone(self)

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
        found = [origin for origin, columns in earlier.columns.origins.items() if name in columns]
        field, _ = self.named_key
        if not found:
            there = dict.fromkeys(
                column for columns in earlier.columns.origins.values() for column in columns
            )
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
        """The positions of the key's columns in the key of the stage before; empty if that is another key."""
        if self.earlier is None or self.derived is None:
            return ()
        before = self.earlier.key_columns(self.earlier.inputs[0])
        own = self.key_columns(self.derived)
        return tuple(map(before.index, own)) if set(own) == set(before) else ()

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
        columns = dict(self.columns.arriving(given))
        return [columns[name] for name in self.key_columns(given)]

    def equal_columns(self, column: str) -> list[str]:
        """Return the columns of results that equal a column in every result, with itself."""
        alike = [column] if self.earlier is None else self.earlier.equal_columns(column)
        for number in range(len(self.key)):
            same = [self.key_columns(given)[number] for given in self.present_inputs]
            if not set(alike).isdisjoint(same):
                return list(dict.fromkeys([*alike, *same]))
        return alike

    @property
    def propagation(self) -> Propagation:
        """The rule by which the stage announces punctuations."""
        return Propagation.EARLY if self.join is None else PRESETS[self.join.preset].propagate

    @property
    def announces(self) -> bool:
        """True if patterns are announced. By other rules than `EARLY`, keys alone are, or nothing is."""
        return self.propagation is Propagation.EARLY

    @cached_property
    def columns(self) -> StageColumns:
        """The columns of the stage's rows."""
        return StageColumns(self)

    @cached_property
    def promises(self) -> StagePromises:
        """The promises of the stage's inputs, and those that it announces."""
        return StagePromises(self)
