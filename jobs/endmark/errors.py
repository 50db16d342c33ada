"""Errors a user can act on. The command line prints their text alone and exits with `EXIT_USAGE`."""

from __future__ import annotations

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
