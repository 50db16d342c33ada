"""Holds results against the output punctuations of earlier batches."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from endmark.engine import channels
from endmark.pipeline import Pipeline
from endmark.verify.formats.patterns import MARK, Bound, read
from support.bucket_tasks import Tables
from support.verify_fates import within


def broken_promises(pipeline: Pipeline, batches: Sequence[Tables]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each output punctuation that a result of a later batch matches, with that result. There must be none.

    Raises:
        ValueError: a text is no punctuation on columns of results.
    """
    columns = pipeline.result_columns()
    said: dict[str, Mapping[str, Bound]] = {}
    for batch in batches:
        for row in batch[channels.RESULTS]:
            for text, bounds in said.items():
                # A null is no value, so no punctuation speaks of it.
                if all(row[name] is not None and within(row[name], each) for name, each in bounds.items()):
                    yield text, row
        for announced in batch[channels.ANNOUNCED]:
            text = announced["punctuation"]
            found = read(f'{{"{MARK}": {text}}}'.encode(), columns, tuple(columns))
            if found is None:
                raise ValueError(f"no output punctuation: {text}")
            said[text] = found or _anything(text)


def _anything(text: str) -> Mapping[str, Bound]:
    """A punctuation that restricts no column to some values still speaks of those that have one."""
    return dict.fromkeys(json.loads(text), Bound())
