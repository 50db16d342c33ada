"""The faults of a simulated run: their kinds, and the draw that decides where each of them happens.

A draw hangs on the seed and on the name of its place alone. So a run repeats, and a smaller run has the same
faults at the places that are left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b


class KilledError(BaseException):
    """The driver is killed, and all of its tasks with it. No `except Exception` of the product sees it."""


class LostTaskError(BaseException):
    """One attempt at a task is killed."""


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    Args:
        how: how it is injected, for docs/reliability.md.
        rate: the probability at each of its places, in a run that has this kind.
    """

    how: str
    rate: float


KINDS: Mapping[str, Kind] = {
    "kill: planned": Kind("the driver dies once the offsets of a batch are logged", 0.15),
    "kill: reading": Kind("the driver dies while a task reads its ranges", 0.04),
    "kill: stage": Kind("the driver dies when a task of a stage begins or ends", 0.02),
    "kill: state": Kind("the driver dies at a write of a task to its state", 0.01),
    "kill: file": Kind("the driver dies before or behind a file of a table", 0.02),
    "kill: commit": Kind("the driver dies before the first commit of a batch to a table", 0.15),
    "kill: between tables": Kind("the driver dies when some tables have the batch and others do not", 0.1),
    "kill: committed": Kind(
        "the driver dies when all tables have the batch and the commit log has not", 0.15
    ),
    "kill: logged": Kind("the driver dies right behind the commit of a batch", 0.1),
    "task lost: reading": Kind("an attempt at a task dies while it reads, and another one follows", 0.06),
    "task lost: stage": Kind("an attempt at a task of a stage dies when it begins or ends", 0.04),
    "task lost: state": Kind("an attempt dies between two writes to its state", 0.02),
    "task lost: file": Kind("an attempt dies before or behind a file of a table", 0.04),
    "torn file": Kind("half a file of a table is written, and its task dies", 0.04),
    "twin": Kind("two attempts at a task end, and either one counts", 0.1),
    "mixed attempts": Kind("of two attempts at a task, each later task reads the output of either one", 0.1),
    "worker restarted": Kind("a task runs in a new process, without caches of the relation", 0.1),
    "blocks reordered": Kind("a bucket gets its blocks of several tasks in another order", 0.5),
    "slow read": Kind("a read of the relation takes up to two seconds", 0.1),
    "failed read": Kind("a read of the relation fails up to three times and is repeated", 0.1),
    "outage": Kind("reads of the relation fail until the deadline, which fails the batch", 0.02),
    "relation altered": Kind("rows of the relation that no record asks for come and go", 0.2),
    "clock moves": Kind("seconds pass between two batches, or two attempts at one", 0.3),
    "upkeep": Kind("`endmark maintain` merges files of a table while a batch is committed to it", 0.1),
    "buckets doubled": Kind("a job starts with twice as many buckets as before, once no row waits", 0.3),
    "answer lost": Kind("a table has a commit, and the job is told that it failed", 0.1),
}
# More attempts than these have no fault that ends them, so each run comes to its end.
_TASK_ATTEMPTS = 3
_BATCH_ATTEMPTS = 4
IN_DRIVER = _TASK_ATTEMPTS  # in the place of a task's attempt, where no task can be lost


def share(*cause: object) -> float:
    """A number from 0 to 1 that hangs on its cause alone."""
    digest = blake2b(" ".join(map(str, cause)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2.0**64


class Faults:
    """Decides at each place of a run whether a fault happens there, and keeps the trace.

    Attributes:
        trace: what has happened, in order.
        injected: the faults that have happened, by their names.

    Args:
        seed: decides where faults happen.
        kinds: the kinds that may happen.
        only: the names of the faults that may happen; `None`: all that are drawn.
    """

    def __init__(self, seed: int, kinds: Collection[str], only: Collection[str] | None = None) -> None:
        self.trace: list[str] = []
        self.injected: dict[str, str] = {}
        self._seed = seed
        self._kinds = frozenset(kinds)
        self._only = None if only is None else frozenset(only)
        self._at = "start"
        self._times: Counter[str] = Counter()
        self._batch_attempt, self._task_attempt = 0, IN_DRIVER
        self._muted = False

    @contextmanager
    def muted(self) -> Iterator[None]:
        """No fault happens, and places are not counted."""
        before, self._muted = self._muted, True
        try:
            yield
        finally:
            self._muted = before

    def batch(self, number: int, attempt: int) -> None:
        """Begin an attempt at a batch."""
        self._at, self._batch_attempt = f"batch {number}.{attempt}", attempt
        self._task_attempt = IN_DRIVER
        self._times.clear()
        self.say("begins")

    def task(self, attempt: int) -> None:
        """Begin an attempt at a task; `IN_DRIVER` ends one."""
        self._task_attempt = attempt

    def say(self, what: str) -> None:
        """Add a line to the trace."""
        self.trace.append(f"{self._at}: {what}")

    def happens(self, kind: str, place: str) -> bool:
        """Return whether a fault of a kind happens at a place of the current attempt at a batch."""
        if kind not in self._kinds or self._muted:
            return False
        key = f"{kind} @ {self._at} {place}"
        self._times[key] += 1
        name = f"{key} {self._times[key]}"
        if self.share(name) >= KINDS[kind].rate or (self._only is not None and name not in self._only):
            return False
        self.injected[name] = kind
        self.say(f"{kind} @ {place}")
        return True

    def kill(self, where: str, place: str) -> None:
        """Die here, perhaps.

        Raises:
            KilledError: the driver dies.
        """
        if self._batch_attempt < _BATCH_ATTEMPTS and self.happens(f"kill: {where}", place):
            raise KilledError(place)

    def lose(self, where: str, place: str) -> None:
        """Lose the current attempt at a task here, perhaps, or the driver.

        Raises:
            LostTaskError: the attempt dies.
            KilledError: the driver dies.
        """
        self.kill(where, place)
        if self._task_attempt < _TASK_ATTEMPTS and self.happens(f"task lost: {where}", place):
            raise LostTaskError(place)

    @property
    def ends_tasks(self) -> bool:
        """True if the current attempt at a task may still die."""
        return self._task_attempt < _TASK_ATTEMPTS

    @property
    def ends_batches(self) -> bool:
        """True if the current attempt at a batch may still fail."""
        return self._batch_attempt < _BATCH_ATTEMPTS

    def share(self, *cause: object) -> float:
        """A number from 0 to 1 that hangs on the seed and a cause."""
        return share(self._seed, *cause)

    @property
    def trace_hash(self) -> str:
        """The hash of all that has happened."""
        return blake2b("\n".join(self.trace).encode(), digest_size=8).hexdigest()
