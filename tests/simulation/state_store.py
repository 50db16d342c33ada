"""The simulated state store. It has versions, as Spark's second format has them.

An attempt at a task begins with the state that the last committed batch has left, and writes a copy. The
copies of all attempts stay. The commit of a batch says which of them count; nobody reads the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

At = tuple[int, int]  # the number of a stage and the label of a bucket


@dataclass
class State:
    """The state of one bucket of one stage, as Spark's variables have it."""

    maps: dict[str, dict[Any, Any]] = field(default_factory=dict)

    def copy(self) -> State:
        return State({name: dict(rows) for name, rows in self.maps.items()})


class StateStore:
    """The states of all buckets, which outlive the driver."""

    def __init__(self) -> None:
        self._written: dict[At, list[State]] = {}
        self._counting: dict[At, int] = {}

    def load(self, at: At) -> State:
        """Return a copy of the state that the last committed batch has left."""
        return self._written[at][self._counting[at]].copy() if at in self._counting else State()

    def keep(self, at: At, state: State) -> int:
        """Keep what an attempt has written; return the attempt's id."""
        written = self._written.setdefault(at, [])
        written.append(state)
        return len(written) - 1

    @property
    def committed(self) -> dict[At, State]:
        """The states that count."""
        return {at: self._written[at][attempt] for at, attempt in self._counting.items()}

    def commit(self, attempts: Mapping[At, int]) -> None:
        """Let the states of these attempts count."""
        self._counting |= attempts


class Handle:
    """The `StatefulProcessorHandle` of one attempt.

    Args:
        state: the state that the attempt reads and writes.
        writes: called before each write.
    """

    def __init__(self, state: State, writes: Callable[[], None]) -> None:
        self._state = state
        self._writes = writes

    def getMapState(self, name: str, key: object, value: object) -> _Map:  # noqa: N802
        return _Map(self._state.maps.setdefault(name, {}), self._writes)


@dataclass(frozen=True)
class _Map:
    rows: dict[Any, Any]
    writes: Callable[[], None]

    def getValue(self, key: Any) -> Any:  # noqa: N802
        return self.rows.get(key)

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802
        self.writes()
        self.rows[key] = value

    def removeKey(self, key: Any) -> None:  # noqa: N802
        self.writes()
        self.rows.pop(key, None)
