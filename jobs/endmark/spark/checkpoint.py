"""A checkpoint belongs to one driver at a time and to one set of tables."""

from __future__ import annotations

import fcntl
import json
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

from endmark.errors import ConfigError, MissingPartError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import Any


@contextmanager
def claimed(checkpoint: Path) -> Iterator[str]:
    """Hold the checkpoint for this process; yields its app id, minted with it.

    Delta skips a batch whose (app id, batch id) it has seen. Batch ids restart at 0 with a new checkpoint, so
    an app id must never outlive its checkpoint: it lives in it.

    Raises:
        MissingPartError: another process holds it.
    """
    directory = checkpoint / "endmark"
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise MissingPartError(
                f"checkpoint {checkpoint} is in use by another job; stop that one, or use another checkpoint"
            ) from error
        app_id = directory / "app_id"
        if not app_id.exists():
            partial = directory / "app_id.part"
            partial.write_text(f"endmark-{uuid.uuid4()}")
            partial.rename(app_id)
        yield app_id.read_text()


def pin(checkpoint: Path, settings: Mapping[str, Any]) -> None:
    """Keep what state was built with; refuse to go on with anything else.

    Raises:
        ConfigError: naming the settings that differ.
    """
    file = checkpoint / "endmark" / "settings.json"
    if not file.exists():
        partial = file.with_suffix(".part")
        partial.write_text(json.dumps(settings, indent=2, sort_keys=True))
        partial.rename(file)
    pinned = json.loads(file.read_text())
    changed = [name for name, value in settings.items() if pinned.get(name) != value]
    if changed:
        raise ConfigError(
            f"checkpoint {checkpoint} was made with another {', '.join(changed)}; "
            "go back to it, or start with a new checkpoint and an empty warehouse"
        )
