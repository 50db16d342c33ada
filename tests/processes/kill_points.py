"""Runs the command line; kills a job at a named point of a batch, once a file asks for that.

The points lie around our own calls. So the job is the one that is shipped, and it has no hook.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

# Each point with what is true there.
POINTS = {
    "planned": "the offsets of a batch are logged, and none of its tasks runs",
    "tasks run": "tasks of the batch run",
    "files written": "the files of the batch are written, and no table has them",
    "between tables": "one table has the batch, and another one has not",
    "tables written": "all tables have the batch, and the ops database has not",
    "batch recorded": "tables and ops database have the batch, and the commit log has not",
    "sink left": "the sink is done with the batch, and Spark is about to log its commit",
}


class Trap:
    """Files by which the runner and the job speak: what point is meant, and that it was reached.

    Args:
        directory: the directory of the two files.
    """

    def __init__(self, directory: Path) -> None:
        self._armed = directory / "armed"
        self._sprung = directory / "sprung.json"

    def arm(self, point: str, seconds: float = 0.0) -> None:
        """Let the job be killed at a point; `tasks run` comes these seconds after the batch has begun."""
        self._sprung.unlink(missing_ok=True)
        scratch = self._armed.with_suffix(".new")
        scratch.write_text(f"{point}\n{seconds}")
        scratch.replace(self._armed)

    def disarm(self) -> None:
        self._armed.unlink(missing_ok=True)

    def armed(self) -> tuple[str, float]:
        """Return the point that is meant, or an empty text, and the seconds."""
        try:
            point, seconds = self._armed.read_text().split("\n")
        except FileNotFoundError:
            return "", 0.0
        return point, float(seconds)

    def sprung(self) -> dict[str, Any] | None:
        """Return what the job wrote before it was killed: point, batch and process; `None` if it was not."""
        if not self._sprung.exists():
            return None
        found: dict[str, Any] = json.loads(self._sprung.read_text())
        return found

    def spring(self, point: str, batch: int) -> None:
        """Write down that the point is reached, and kill all processes of this job's group."""
        scratch = self._sprung.with_suffix(".new")
        scratch.write_text(json.dumps({"point": point, "batch": batch, "pid": os.getpid()}))
        scratch.replace(self._sprung)
        self.disarm()
        os.killpg(0, signal.SIGKILL)


class Batch:
    """The batch that the job works on, as the points see it."""

    def __init__(self, trap: Trap) -> None:
        self._trap = trap
        self._number = -1
        self._tables = 0
        self._tasks_run = threading.Event()

    def begin(self, number: int) -> None:
        self._number, self._tables = number, 0
        self.at("planned")
        point, seconds = self._trap.armed()
        if point == "tasks run":
            self._tasks_run.set()
            threading.Thread(target=self._kill_later, args=[seconds, number], daemon=True).start()

    def tasks_done(self) -> None:
        self._tasks_run.clear()
        self.at("files written")

    def before_table(self) -> None:
        if self._tables:
            self.at("between tables")
        self._tables += 1

    def at(self, point: str) -> None:
        if self._trap.armed()[0] == point:
            self._trap.spring(point, self._number)

    def _kill_later(self, seconds: float, number: int) -> None:
        time.sleep(seconds)
        if self._tasks_run.is_set() and self._number == number:
            self._trap.spring("tasks run", number)


def set_points(batch: Batch) -> None:
    """Wrap the calls of the sink."""
    from endmark.control.ops_database.batches import Batches
    from endmark.control.ops_database.runs import Runs
    from endmark.driver.table_log import TableLog
    from endmark.spark.sink import Sink

    def around(
        owner: Any, name: str, before: Callable[..., None] | None, after: Callable[[], None] | None = None
    ) -> None:
        inner = getattr(owner, name)

        @wraps(inner)
        def outer(self: Any, *args: Any, **named: Any) -> Any:
            if before is not None:
                before(*args)
            result = inner(self, *args, **named)
            if after is not None:
                after()
            return result

        setattr(owner, name, outer)

    around(Sink, "__call__", lambda _packed, number: batch.begin(number), lambda: batch.at("sink left"))
    around(Runs, "require_last", lambda *_: batch.tasks_done())
    around(TableLog, "commit", lambda *_: batch.before_table())
    around(
        Batches,
        "record",
        lambda *_: batch.at("tables written"),
        lambda: batch.at("batch recorded"),
    )


if __name__ == "__main__":
    from endmark.cli.app import main

    set_points(Batch(Trap(Path(os.environ["ENDMARK_TRAP"]))))
    sys.argv[0] = "endmark"
    main()
