"""The sidecar's log, which goes to standard error with at most a few lines a minute for one cause."""

from __future__ import annotations

import logging
import time

LINES = 5
SECONDS = 60.0


class Throttle(logging.Filter):
    """A log filter that passes `LINES` records in `SECONDS` from each line of code, and drops others.

    The next record that passes says how many were dropped. Without a limit, a client could fill the log by
    causing the same warning again and again. The lines of code are fixed, so the filter's memory is
    bounded.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[tuple[str, int], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        line = (record.pathname, record.lineno)
        now = time.monotonic()
        began, count = self._seen.get(line, (now, 0))
        if now - began >= SECONDS:
            if count > LINES:
                record.msg = f"{record.getMessage()} (and {count - LINES} times before, not logged)"
                record.args = None
            began, count = now, 0
        self._seen[line] = (began, count + 1)
        return count < LINES


def log_to_stderr() -> None:
    """Send warnings and errors of the whole process to standard error, throttled."""
    handler = logging.StreamHandler()
    handler.addFilter(Throttle())
    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s", handlers=[handler]
    )
