"""Write the reference pages of docs/: fields of the pipeline file, metrics, and options of commands."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter

from endmark import metrics
from endmark.pipeline import Pipeline
from endmark_ops.answers.exporter import HISTOGRAMS, IN_HISTOGRAMS, OF_LOGINS, OWN

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_GENERATED = "<!-- `make references` writes this page. -->"
_ABOUT_FIELDS = """\
The [guide](pipeline-file.md) shows how the fields work together, and
[the schema](../schemas/pipeline.v1.json) is for your editor. A field without a default is required. The last
column says what a change of the field takes: see [changing a pipeline](knobs.md)."""
_ABOUT_METRICS = """\
The sidecar (`endmark ops`) serves these metrics at `/metrics` in Prometheus' format. Each has the label
`pipeline`, and labels such as `stream` or `step` where its text says so. Labels never hold keys or values of
the data. [Alerts](../infra/alerts.yml) and a Grafana dashboard come with the project."""
_LONGEST_EXAMPLE = 60
_UNITS = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1), ("ms", 0.001)]
_DURATION, _SIZE = r")?\s*ms|", "kB"  # parts of the patterns of durations and sizes
_CHANGE = re.compile(r"^(.*?)(?:; )?(?:another value takes |(?=knob \())(.*)$", re.DOTALL)


def fields_page() -> str:
    """Return docs/pipeline-fields.md: each model of the pipeline file with its fields."""
    schema = Pipeline.model_json_schema()
    examples = _examples(schema)
    parts = ["# Fields of the pipeline file", _GENERATED, _ABOUT_FIELDS]
    for name, model in [("Pipeline", schema), *sorted(schema["$defs"].items())]:
        if "properties" not in model:
            continue
        rows = [
            _field_row(field, declared, examples.get((name, field)), schema)
            for field, declared in model["properties"].items()
        ]
        head = ["| field | value | default | example | a change takes |", "|---|---|---|---|---|"]
        parts += [f"## {name}", model.get("description", ""), "\n".join([*head, *rows])]
    return "\n\n".join(part for part in parts if part) + "\n"


def _field_row(field: str, declared: dict[str, Any], example: Any, schema: dict[str, Any]) -> str:
    note, change = _note_and_change(declared.get("description", ""))
    value = "; ".join(dict.fromkeys(part for part in (_kind(declared, schema), note) if part))
    default = ""
    if "default" in declared:
        default = "none" if declared["default"] is None else f"`{_short(declared['default'])}`"
    shown = "" if example is None else f"`{field}: {_short(example)}`"
    return _row(f"`{field}`", value, default, shown, change)


def metrics_page() -> str:
    """Return docs/metrics.md: the catalogue, with what the sidecar itself knows."""
    lines = ["| metric | kind | counts |", "|---|---|---|"]
    catalogue = {
        f"endmark_{name}": known.doc for name, known in metrics.CATALOGUE.items() if name not in IN_HISTOGRAMS
    }
    for name, doc in (OWN | OF_LOGINS | catalogue).items():
        lines.append(_row(f"`{name}`", "counter" if metrics.is_counter(name) else "gauge", doc))
    lines += [_row(f"`{name}`", "histogram", doc) for name, doc in HISTOGRAMS.items()]
    return "\n\n".join(["# Metrics", _GENERATED, _ABOUT_METRICS, "\n".join(lines)]) + "\n"


def commands_page() -> str:
    """Return docs/command-options.md, as typer writes it."""
    command = [sys.executable, "-m", "typer", "endmark.cli.app", "utils", "docs", "--name", "endmark"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    _, rest = text.split("\n", 1)
    return f"# Options of commands\n\n{_GENERATED}\n{rest}".rstrip() + "\n"


def _note_and_change(description: str) -> tuple[str, str]:
    """Split the description of a field into its note, and what a change takes."""
    found = _CHANGE.match(description)
    return (found[1], found[2]) if found else (description, "")


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", "<br>") for cell in cells) + " |"


def _short(value: Any) -> str:
    if isinstance(value, dict | list):
        value = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000).strip()
        value = re.sub(r"'([0-9]+)'", r"\1", value)  # BaseLoader reads numbers as texts
    text = value if isinstance(value, str) else json.dumps(value)
    text = re.sub(r"\bP(?:[0-9]+D)?T?[0-9HMS.]*\b", _in_words, text)
    return text if len(text) <= _LONGEST_EXAMPLE else f"{text[:_LONGEST_EXAMPLE]}…"


def _in_words(duration: re.Match[str]) -> str:
    """Return a duration such as `PT1H30M` as pipeline files have it."""
    seconds = TypeAdapter(timedelta).validate_python(duration[0]).total_seconds()
    unit, size = next(each for each in _UNITS if seconds % each[1] == 0) if seconds else ("s", 1)
    return f"{seconds / size:g}{unit}"


def _kind(schema: dict[str, Any], whole: dict[str, Any]) -> str:
    """Return the values of a field in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        model = whole["$defs"][name]
        words = f"[{name}](#{name.lower()})" if "properties" in model else _kind(model, whole)
    elif "enum" in schema or "const" in schema:
        words = ", ".join(f"`{_short(value)}`" for value in schema.get("enum", [schema.get("const")]))
    elif several := schema.get("anyOf") or schema.get("oneOf"):
        words = " or ".join(dict.fromkeys(_kind(each, whole) for each in several))
    elif schema.get("type") == "string":
        pattern = schema.get("pattern", "")
        words = "duration" if _DURATION in pattern else "size" if _SIZE in pattern else "text"
    elif schema.get("type") == "array":
        words = f"list of {_kind(schema['items'], whole)}"
    elif schema.get("type") == "object":
        words = f"{_kind(schema['additionalProperties'], whole)} by name"
    else:
        words = {"null": "`null`", "boolean": "`true`, `false`"}.get(schema["type"], schema["type"])
    return words


def _examples(schema: dict[str, Any]) -> dict[tuple[str, str], Any]:
    """Return the first value of each model's fields in the guide, the examples, and beside this module."""
    found: dict[tuple[str, str], Any] = {}
    [guide] = re.findall(r"```yaml\n(.*?)```", (DOCS / "pipeline-file.md").read_text(), re.DOTALL)
    files = [path.read_text() for path in sorted((ROOT / "jobs/endmark/pipelines").glob("*.yaml"))]
    others = [path.read_text() for path in sorted(Path(__file__).parent.glob("*.yaml"))]
    for text in [guide, *files, *others]:
        # BaseLoader makes texts of all values, as they are spelled, and takes `on` for no boolean.
        document = yaml.load(text, yaml.BaseLoader)  # noqa: S506
        for model, field, value in _walk("Pipeline", schema, document, schema):
            found.setdefault((model, field), value)
    return found


def _walk(
    name: str, model: dict[str, Any], value: dict[str, Any], whole: dict[str, Any]
) -> Iterator[tuple[str, str, Any]]:
    for field, inner in value.items():
        if field in model["properties"]:
            yield name, field, inner
            yield from _inside(model["properties"][field], inner, whole)


def _inside(schema: dict[str, Any], value: Any, whole: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    if not isinstance(value, dict):
        return
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        model = whole["$defs"][name]
        if value.keys() <= model.get("properties", {}).keys() and value.keys() >= set(
            model.get("required", ())
        ):
            yield from _walk(name, model, value, whole)
    for each in schema.get("anyOf", []) + schema.get("oneOf", []):
        yield from _inside(each, value, whole)
    if isinstance(schema.get("additionalProperties"), dict):
        for inner in value.values():
            yield from _inside(schema["additionalProperties"], inner, whole)


PAGES = {"pipeline-fields.md": fields_page, "metrics.md": metrics_page, "command-options.md": commands_page}


def main() -> None:
    """Write all pages."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())


if __name__ == "__main__":
    main()
