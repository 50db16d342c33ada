"""Errors of commands: one line for the user, and an exit code."""

from __future__ import annotations

import errno
import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import typer

from endmark.errors import (
    EXIT_FAILED,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
    ConfigError,
    EndmarkError,
    MissingPartError,
    UnreachableError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


# Errors of a directory or file that cannot be made, read or written.
_UNWRITABLE = {
    errno.EACCES,
    errno.EEXIST,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}
_FULL = {errno.ENOSPC, errno.EDQUOT}
# The extra that has the packages of a command; all others need those of a job, or none.
_EXTRAS = {"demo": "spark,ops", "maintain": "verify", "ops": "ops", "status": "ops", "verify": "verify"}


def _extra_of(error: ModuleNotFoundError, arguments: Sequence[str]) -> str | None:
    """Return the extra whose packages a command needs; `None` if the missing module is one of our own."""
    if error.name is None or error.name.startswith("endmark"):
        return None
    return next((_EXTRAS[word] for word in arguments[:1] if word in _EXTRAS), "spark")


def _exit_code(error: EndmarkError) -> int:
    match error:
        case UnreachableError():
            return EXIT_UNREACHABLE
        case ConfigError() | MissingPartError():
            return EXIT_USAGE
    return EXIT_FAILED


@contextmanager
def errors_told() -> Iterator[None]:
    """Print an error that a user can mend as one line, without a traceback, and exit with its code.

    Raises:
        SystemExit: a user can mend the error. Any other error is raised as it is.
    """
    try:
        yield
    except EndmarkError as error:
        _refuse(str(error), _exit_code(error))
    except ModuleNotFoundError as error:
        if (extra := _extra_of(error, sys.argv[1:])) is None:
            raise
        _refuse(f"the package {error.name} is missing; pip install 'endmark[{extra}]'", EXIT_USAGE)
    except OSError as error:
        if error.errno in _UNWRITABLE and error.filename is not None:
            # The file may come from any option, so the text names none.
            _refuse(f"{error.filename}: {error.strerror}; name a place that this user can write", EXIT_USAGE)
        if error.errno in _FULL:
            where = "" if error.filename is None else f"{error.filename}: "
            _refuse(f"{where}{error.strerror}; make room, and start again", EXIT_FAILED)
        raise


def _refuse(text: str, code: int) -> NoReturn:
    if "--json" in sys.argv:
        typer.echo(json.dumps({"error": text}))
    else:
        typer.echo(f"endmark: {text}", err=True)
    raise SystemExit(code) from None
