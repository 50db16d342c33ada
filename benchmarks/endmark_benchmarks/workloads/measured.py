"""A pipeline file with the settings that it is measured with."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from endmark.pipeline.file import load

if TYPE_CHECKING:
    from endmark.pipeline import Pipeline


@dataclass(frozen=True)
class Measured:
    """A pipeline that is measured.

    Args:
        file: the pipeline file.
        settings: fields that are set in it, such as `batch.every=0s`.
    """

    file: Path
    settings: tuple[str, ...] = ()

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        """Return the pipeline that `values` of another process describes."""
        return cls(Path(values["file"]), tuple(values["settings"]))

    def to_json(self) -> dict[str, Any]:
        """Return the pipeline as values for JSON."""
        return {"file": str(self.file), "settings": self.settings}

    def load(self, relation_url: str) -> Pipeline:
        """Return the pipeline with its relations in a database."""
        return load(self.file, {**os.environ, "ENDMARK_RELATION_URL": relation_url}, self.settings)
