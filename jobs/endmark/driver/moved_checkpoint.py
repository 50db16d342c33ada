"""Lets a job go on with a checkpoint that was moved or copied, such as a backup that is restored elsewhere.

All paths in a checkpoint are relative, except those of the files that describe state. Spark 4.2 keeps these
paths in the metadata of each stateful operator. A copy would fail without the original, or read the
original's files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from endmark.storage import entries, read_text, remove, write_text

if TYPE_CHECKING:
    from endmark.storage import Location


def follow_move(spark_checkpoint: Location) -> None:
    """Let the metadata of all operators name files of this checkpoint.

    Args:
        spark_checkpoint: Spark's part of a checkpoint. No query may run on it.
    """
    operator = 0
    while names := entries(directory := spark_checkpoint / "state" / str(operator) / "_metadata" / "v2"):
        schemas = spark_checkpoint / "state" / str(operator) / "_stateSchema"
        for name in names:
            if name.isdecimal():  # the others are Hadoop's checksums
                _follow(directory, name, schemas)
        operator += 1


def _follow(directory: Location, name: str, schemas: Location) -> None:
    """Rewrite a file of metadata if it names files of another checkpoint.

    Args:
        directory: the directory of the file.
        name: the name of the file.
        schemas: the directory of the files that describe the operator's state.
    """
    try:
        version, _, text = read_text(directory, name).partition("\n")
        found: dict[str, Any] = json.loads(text)
    except ValueError:
        return  # Spark refuses a file that is torn or no UTF-8
    before = json.dumps(found)
    for store in found["stateStoreInfo"]:
        store["stateSchemaFilePaths"] = [_moved(path, schemas) for path in store["stateSchemaFilePaths"]]
    if (after := json.dumps(found)) != before:
        # Hadoop reads a file without a checksum as it is. So a crash between the two steps does no harm.
        remove(directory, [f".{name}.crc"])
        write_text(directory, name, f"{version}\n{after}")


def _moved(path: str, schemas: Location) -> str:
    """Return the path of a file below `schemas`, given its path in the checkpoint as it was."""
    _, _, below = path.rpartition("/_stateSchema/")
    place = f"file:{schemas.resolve()}" if isinstance(schemas, Path) else schemas.for_hadoop
    return f"{place}/{below}"
