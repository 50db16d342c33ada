"""Errors that a user can act on. The command line prints their text without a traceback."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_UNREACHABLE = 75  # "try again later", as `sysexits.h` numbers it


class EndmarkError(Exception):
    """Something outside the program is wrong; the text says what is wrong, where, and what to do."""


class ConfigError(EndmarkError):
    """A pipeline file, an option or a setting is wrong."""


class MissingPartError(EndmarkError):
    """Something that the command needs is missing, such as Java, a port, a database or a broker."""


class UnreachableError(MissingPartError):
    """A server does not answer now, or an object store. The same command may succeed later."""


class PartitionError(EndmarkError):
    """A topic has more partitions than when the query started."""


class TaskError(EndmarkError):
    """A task of a job has failed; the text is one line with the task and the cause."""


@contextmanager
def failing_at(task: Callable[[], str]) -> Iterator[None]:
    """Turn any error of the body into a `TaskError` that begins with its task.

    Spark passes on the text of a task's error, but not the error itself. Spark's own text is "An exception
    was thrown from the Python worker", which names neither the cause nor the records.

    Args:
        task: returns the task; it is called only after an error.

    Raises:
        TaskError: the body has raised an error.
    """
    try:
        yield
    except Exception as error:
        cause = str(error) if isinstance(error, EndmarkError) else f"{type(error).__name__}: {error}"
        raise TaskError(f"{task()}: {' '.join(cause.split())}") from error
