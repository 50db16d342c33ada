"""The examples of docs/semantics.md, run through the tasks of the buckets and recomputed by `verify`."""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from endmark.pipeline import Pipeline
from endmark.pipeline.text import PipelineText
from support.graph_runs import require_same
from support.verify_world import Record

PAGE = Path(__file__).parents[2] / "docs/semantics.md"
# Sections without a rule on what becomes of records.
WITHOUT = {
    "Examples",
    "Quarantine",
    "Reading a published topic",
    "Tables that come and go",
    "Limits of verify",
}
# Tables that are empty if an example does not name them.
JUDGED = ("dead_letters", "violations")
Document = dict[str, Any]


def read(text: str) -> Document:
    """The document of a block, as a pipeline file is read."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(text)
        file.flush()
        document: Document = PipelineText(Path(file.name)).document
    return document


def sections() -> dict[str, list[Document]]:
    """The YAML blocks of each section that are a shared pipeline or an example."""
    texts = re.split(r"^##+ (.*)\n", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return {
        heading: [
            read(text)
            for text in re.findall(r"^```yaml\n(.*?)^```", body, re.MULTILINE | re.DOTALL)
            if "records:\n" in text or heading == "Examples"
        ]
        for heading, body in zip(texts[::2], texts[1::2], strict=True)
    }


SECTIONS = sections()
[SHARED] = SECTIONS["Examples"]


def pipeline_of(example: Document) -> Pipeline:
    """The shared pipeline with the streams, relations, steps and tables that an example changes."""
    streams: Document = {}
    for name, fields in {**SHARED["streams"], **example.get("streams", {})}.items():
        if fields is not None:
            streams[name] = SHARED["streams"].get(name, {}) | fields
            streams[name].setdefault("topic", name)
    changed = {name: example.get(name, SHARED.get(name, {})) for name in ("relations", "steps", "tables")}
    return Pipeline.model_validate({"name": "examples", "streams": streams, **changed})


def record_of(written: Mapping[str, Any]) -> Record:
    """A record, from its topic (and partition, if not 0) and its value; a text is a value as it is."""
    [(place, value)] = written.items()
    topic, _, partition = place.partition("/")
    text = value if isinstance(value, str) else json.dumps(value)
    return Record(topic, int(partition or 0), text.encode())


def as_written(value: Any) -> Any:
    """A value of a table, as an example spells it."""
    match value:
        case datetime():
            return value.strftime("%Y-%m-%dT%H:%M:%SZ")
        case date() | Decimal():
            return str(value)
        case bytes():
            return value.decode()
        case _:
            return value


def shown(rows: list[Document], names: list[str]) -> Counter[str]:
    return Counter(json.dumps({name: as_written(row[name]) for name in names}) for row in rows)


@pytest.mark.parametrize("section", [heading for heading in SECTIONS if heading not in WITHOUT])
def test_the_example_of_a_section_holds(section: str) -> None:
    [example] = SECTIONS[section]
    pipeline = pipeline_of(example)
    records = [record_of(written) for written in example["records"]]
    partitions = {stream.topic: example.get("partitions", 1) for stream in pipeline.streams.values()}

    found = require_same(pipeline, records, example.get("batches", []), partitions)

    channels = {table: role for role, table in pipeline.directories.items()} | {"punctuations": "announced"}
    for table, expected in ({table: [] for table in JUDGED} | example["expected"]).items():
        rows = found.get(channels[table], [])
        names = list(expected[0]) if expected else []
        assert shown(rows, names) == Counter(json.dumps(row) for row in expected), (table, rows)
