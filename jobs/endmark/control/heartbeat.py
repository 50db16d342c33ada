"""The heartbeat of a driver, by which readers of the ops database know that a job is alive."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

from py4j.protocol import Py4JError
from sqlalchemy.exc import SQLAlchemyError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from endmark.control.database import OpsDatabase

BEAT_SECONDS = 5.0
_LEAVING_SECONDS = 5.0


class Heartbeat:
    """Beats every `BEAT_SECONDS` in a thread of its own, so that a long batch does not look dead.

    A beat says that the driver's Python and, once `ask` has been called, its JVM answer. The batches
    themselves tell whether they follow one another.

    Args:
        ops: the ops database; while it is away there are no beats.
        run_id: of the run that beats, which has been started.
    """

    def __init__(self, ops: OpsDatabase, run_id: str) -> None:
        self._ops = ops
        self._run_id = run_id
        self._ask: Callable[[], object] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def ask(self, question: Callable[[], object] | None) -> None:
        """Set a question that is asked before each beat; no beat comes while it is not answered.

        `None`: no question.
        """
        self._ask = question

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(_LEAVING_SECONDS)  # no longer, since a JVM that hangs never answers

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            try:
                if (ask := self._ask) is not None:
                    ask()
                self._ops.beat(self._run_id)
            except (SQLAlchemyError, Py4JError, OSError):
                pass  # whoever waits for the beat sees that it is missing
