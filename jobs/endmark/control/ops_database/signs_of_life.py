"""Signs of life of a driver. They show readers of the ops database that a job is alive."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

from py4j.protocol import Py4JError
from sqlalchemy.exc import SQLAlchemyError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from endmark.control.ops_database.database import OpsDatabase

SIGN_SECONDS = 5.0
_LEAVING_SECONDS = 5.0


class SignsOfLife:
    """Gives one every `SIGN_SECONDS` in its own thread, so that a job with a long batch does not look dead.

    A sign shows that the driver's Python answers and, once `ask` has been called, that its JVM answers. It
    does not show that batches make progress.

    Args:
        ops: the ops database. While it does not answer, there are no signs.
        run_id: the run, which the ops database knows already.
        say: called once with a line if the file of the ops database is no longer the one that we write.
    """

    def __init__(self, ops: OpsDatabase, run_id: str, say: Callable[[str], None]) -> None:
        self._ops = ops
        self._run_id = run_id
        self._say = say
        self._has_warned = False
        self._ask: Callable[[], object] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._give, name="signs of life", daemon=True)

    def ask(self, question: Callable[[], object] | None) -> None:
        """Set a function that is called before each sign; a call that fails or hangs holds the sign back.

        With `None`, nothing is called.
        """
        self._ask = question

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(_LEAVING_SECONDS)  # with a limit, since a JVM that hangs never answers

    def _give(self) -> None:
        while not self._ended.wait(SIGN_SECONDS):
            try:
                if (ask := self._ask) is not None:
                    ask()
                self._ops.runs.sign_of_life(self._run_id)
                if self._ops.is_replaced() and not self._has_warned:
                    self._has_warned = True
                    self._say(
                        f"the ops database {self._ops.shown_url} was removed or replaced, and this job goes "
                        "on with the file of before, which nobody sees; start the job again"
                    )
            except (SQLAlchemyError, Py4JError, OSError):
                pass  # readers of the ops database see that the sign is missing
