"""The step that joins streams."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from endmark.operators.stream_join.presets import GOALS, Goal, Policy, Preset, policy
from endmark.pipeline.change_rules import AtRestart, Change, ChangeRule, Knob, Pinned
from endmark.pipeline.fields import AnyNames, Count, Duration, Expression, Model, Name, Names, Size
from endmark.types import JoinType

_WINDOW = ChangeRule(
    change=Change.NEW_CHECKPOINT,
    remark="keys have become final, and rows were freed, by the old window",
)
_OneWindow = Annotated[Duration | None, Tag("[one]")]
_Windows = Annotated[
    Annotated[dict[Name, Duration | None], Tag("[each]")] | _OneWindow,
    Discriminator(lambda value: "[each]" if isinstance(value, dict) else "[one]"),
]


class JoinStep(Model):
    """The join of streams on columns that all of them have. `join` names its inputs, the left one first.

    One input may be an earlier join, or a lookup of its rows. `on` may then name any column that one of that
    join's streams and relations has. If its rows have a null there, they are dropped.

    A join of more than two inputs is inner. A result has one row of each input. Every two of its rows are
    within their windows. A row is freed when no result with it can come any more.

    `window` is the event time for which a row of any input stays joinable, or names one for each input;
    `null` is for ever. `where` is an SQL condition that results must also meet, over columns named as in
    tables.
    `preset` says what frees state and when keys are announced; `auto` does all that the rest of the file
    allows. Each of the job's buckets purges after `purge_every` punctuations of a stream. With more than two
    inputs, only presets that announce what all inputs close let punctuations wait. Rows beyond
    `memory`, which all buckets share, are spilled: their meeting with later rows is put off. With `autotune`
    the job turns `purge_every` by the measured costs of purging and joining. `goal` chooses `purge_every` and
    `memory` where the file has none: most results a second, least memory, or earliest punctuations.
    """

    kind: ClassVar[Literal["join"]] = "join"
    inputs: Pinned[Annotated[AnyNames, Field(alias="join", min_length=2)]]
    on: Pinned[Names]
    type: Pinned[JoinType] = JoinType.INNER
    where: Pinned[Expression | None] = None
    window: Annotated[_Windows, _WINDOW] = None
    preset: Pinned[Preset] = Preset.AUTO
    goal: AtRestart[Goal | None] = None
    purge_every: Annotated[
        Count,
        Knob(
            "number",
            "1 to 1000000; presets that purge with each punctuation take 1 alone",
            "The punctuations of a stream that wait until state is purged. More of them: less work, "
            "more state.",
        ),
    ] = 1
    memory: Annotated[
        Size | None,
        Knob(
            "size",
            "such as 256MB, up to 1000000GB; null: any number; presets that do not spill take null alone",
            "The memory of all streams' rows, in all buckets. Rows beyond it meet later rows in a pause.",
        ),
    ] = None
    autotune: AtRestart[bool] = False

    @model_validator(mode="before")
    @classmethod
    def _follow_goal(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("goal") in list(Goal):
            return {**GOALS[Goal(given["goal"])], **given}
        return given

    @model_validator(mode="after")
    def _check_windows(self) -> Self:
        for name in self.window if isinstance(self.window, dict) else ():
            if name not in self.inputs:
                raise ValueError(f"window.{name}: {name!r} is not one of join: {', '.join(self.inputs)}")
        return self

    def window_of(self, name: str) -> timedelta | None:
        """Return the window of an input; `None` is for ever."""
        return self.window.get(name) if isinstance(self.window, dict) else self.window

    def policy(self, buckets: int = 1, *, field: str) -> Policy:
        """Return the policy of the preset for one bucket of `buckets`, which share the memory.

        Args:
            buckets: the number of buckets.
            field: the step's field in the pipeline file, for errors.

        Raises:
            ConfigError: a field is set that the preset has no use for.
        """
        return policy(
            self.preset,
            windowed=any(self.window_of(name) is not None for name in self.inputs),
            purge_every=self.purge_every,
            autotune=self.autotune,
            memory=None if self.memory is None else self.memory // buckets,
            goal=self.goal,
            inputs=len(self.inputs),
            prefix=f"{field}.",
        )
