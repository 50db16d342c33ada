"""The examples of docs/semantics, run through the tasks of the buckets and recomputed by `verify`.

Each page has one example, and so has each section of a page. Any other page fails, unless `WITHOUT` has it.
"""

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

FOLDER = Path(__file__).parents[2] / "docs/semantics"
# Pages without a rule on what becomes of records, by their titles.
WITHOUT = {
    "Semantics",
    "How to read the examples",
    "Quarantine",
    "Gaps",
    "Published topics",
    "Reading a published topic",
    "Repeats in a published topic",
    "Tables that come and go",
    "What exactly once covers",
    "Limits of verify",
    "Verified topics",
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


def examples(body: str) -> list[Document]:
    """The YAML blocks of a section that have records."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", body, re.MULTILINE | re.DOTALL)
    return [read(block) for block in blocks if "records:\n" in block]


def sections() -> dict[str, str]:
    """The text of each page and of each section of a page, by its heading."""
    found: dict[str, str] = {}
    for page in sorted(FOLDER.rglob("*.md")):
        title, _, text = page.read_text().partition("\n")
        parts = [title.removeprefix("# "), *re.split(r"^##+ (.*)\n", text, flags=re.MULTILINE)]
        for heading, body in zip(parts[::2], parts[1::2], strict=True):
            assert heading not in found, f"{page.name}: another section is called {heading!r}"
            found[heading] = body
    return found


SECTIONS = sections()
[SHARED] = [
    read(text)
    for text in re.findall(r"^```yaml\n(.*?)^```", SECTIONS["How to read the examples"], re.M | re.S)
]


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


def test_pages_that_need_no_example_have_none() -> None:
    assert SECTIONS.keys() >= WITHOUT
    assert [heading for heading in WITHOUT if examples(SECTIONS[heading])] == []


def test_the_first_page_names_every_page() -> None:
    named = re.findall(r"\(([a-z-]+\.md)\)", (FOLDER / "README.md").read_text())
    assert sorted({*named, "README.md"}) == sorted(page.name for page in FOLDER.rglob("*.md"))


@pytest.mark.parametrize("section", [heading for heading in SECTIONS if heading not in WITHOUT])
def test_the_example_of_a_section_holds(section: str) -> None:
    [example] = examples(SECTIONS[section])
    pipeline = pipeline_of(example)
    records = [record_of(written) for written in example["records"]]
    partitions = {stream.topic: example.get("partitions", 1) for stream in pipeline.streams.values()}

    found = require_same(pipeline, records, example.get("batches", []), partitions)

    channels = {table: role for role, table in pipeline.outputs.directories.items()} | {
        "punctuations": "announced"
    }
    for table, expected in ({table: [] for table in JUDGED} | example["expected"]).items():
        rows = found.get(channels[table], [])
        names = list(expected[0]) if expected else []
        assert shown(rows, names) == Counter(json.dumps(row) for row in expected), (table, rows)
