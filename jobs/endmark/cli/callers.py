"""The name of the person who calls a command, for audits."""

from __future__ import annotations

import getpass
import os

from endmark.errors import ConfigError
from endmark.wire.control import NAME_LENGTH, is_name


def caller(by: str) -> str:
    """Return the name of the caller.

    Args:
        by: the name that the option `--by` has given; the user of the process if it is empty.

    Raises:
        ConfigError: the job would refuse a control record with this name.
    """
    name = by or _user()
    if not is_name(name):
        raise ConfigError(f"--by {name!r}: give a name of up to {NAME_LENGTH} letters that can be printed")
    return name


def _user() -> str:
    # Kubernetes may run a container as a user that is not in its /etc/passwd.
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"
