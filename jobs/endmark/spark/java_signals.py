"""Hands the signals that ask a job to stop from Java to Python.

Under spark-submit, Python is a child of Java. A service manager, or Kubernetes, sends SIGTERM to the parent
alone. Java would then end at once, and break off the batch. The job would count as failed.
"""

from __future__ import annotations

import os
from typing import Any

_SIGNALS = "TERM", "INT"


class _Handler:
    """A handler of Java's that sends the signal to this process. Py4J calls it by its Java name."""

    class Java:
        implements = ("sun.misc.SignalHandler",)

    def handle(self, signal: Any) -> None:
        os.kill(os.getpid(), signal.getNumber())


def hand_to_python(gateway: Any) -> None:
    """Let this process alone decide what SIGTERM and SIGINT do. Java ends when this process does.

    Args:
        gateway: the gateway to Java, with a server for callbacks.
    """
    java = gateway.jvm.sun.misc
    handler = _Handler()
    for name in _SIGNALS:
        java.Signal.handle(java.Signal(name), handler)
