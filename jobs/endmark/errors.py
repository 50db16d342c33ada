"""Errors a user can act on. The command line prints their text alone and exits with `EXIT_USAGE`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EXIT_FAILED = 1
EXIT_USAGE = 2


class EndmarkError(Exception):
    """Something outside the program is wrong; the text says what, where and what to do."""


class ConfigError(EndmarkError):
    """A pipeline file, an option or a setting is wrong."""


class MissingPartError(EndmarkError):
    """Something the command needs is not there: Java, a port, a database, a broker."""


class PartitionError(EndmarkError):
    """A topic has other partitions than when the job started."""


class TaskError(EndmarkError):
    """A task of a job has failed; the text is one line with the place and the cause."""


@contextmanager
def failing_at(place: Callable[[], str]) -> Iterator[None]:
    """Turn any error of the body into a `TaskError` that begins with its place.

    Spark passes on the text of a task's error, but not its object. Its own words for it are "An exception was
    thrown from the Python worker", which name neither the cause nor the records at hand.

    Args:
        place: is asked for the place once an error has come.
    """
    try:
        yield
    except Exception as error:
        cause = str(error) if isinstance(error, EndmarkError) else f"{type(error).__name__}: {error}"
        raise TaskError(f"{place()}: {' '.join(cause.split())}") from error
