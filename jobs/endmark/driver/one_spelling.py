"""One spelling for settings of a pipeline file that mean the same, so that a checkpoint takes either.

The model of the file has given durations, types, defaults and single names one spelling already. Expressions
keep the text of the file, and are compared by their meaning.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from endmark.errors import ConfigError
from endmark.pipeline.formats import FORMATS
from endmark.pipeline.record_parts import Origin, RecordPart
from endmark.pipeline.steps.join import JoinStep
from endmark.schemas.registry import SchemaFile

if TYPE_CHECKING:
    from typing import Any

    from endmark.pipeline import Pipeline


def in_one_spelling(spec: dict[str, Any], pipeline: Pipeline) -> None:
    """Change the settings of a pipeline to their one spelling.

    Args:
        spec: the settings as JSON.
        pipeline: the pipeline that has them.
    """
    for stream in spec["streams"].values():
        defaults = {name: str(RecordPart(Origin.VALUE, (name,))) for name in stream["taken_from"]}
        stream["taken_from"] = {
            name: part for name, part in stream["taken_from"].items() if part != defaults[name]
        }
    for name, step in pipeline.steps.items():
        if isinstance(step, JoinStep):
            spec["steps"][name]["window"] = _window(spec["steps"][name]["window"], step.inputs)
    for name, table in spec["tables"].items():
        table["from"] = table["from"] or name
    for groups in pipeline.groups:
        aggregate = spec["steps"][groups.step]["aggregate"]
        with_origin = _with_origin(pipeline)
        keys = {reference: name for name, reference in groups.references.items() if name in pipeline.key}
        aggregate["by"] = [keys.get(name, with_origin.get(name, name)) for name in aggregate["by"]]
        for measure in aggregate["measures"].values():
            measure["column"] = with_origin.get(measure["column"], measure["column"])


def _with_origin(pipeline: Pipeline) -> dict[str, str]:
    """Return the columns that a single stream or relation has, each with that one, such as `orders.total`."""
    places = [
        (origin, column) for origin, columns in pipeline.references.origins.items() for column in columns
    ]
    several = Counter(column for _, column in places)
    return {column: f"{origin}.{column}" for origin, column in places if several[column] == 1}


def _window(window: Any, inputs: tuple[str, ...]) -> Any:
    """Return the window of each input, or one for all of them if these are equal."""
    each = {name: window.get(name) for name in inputs} if isinstance(window, dict) else {"": window}
    first, *others = each.values()
    return each if any(other != first for other in others) else first


def avro_schemas(pipeline: Pipeline) -> dict[str, Any]:
    """Return the schemas of Avro in files that a pipeline names, by stream.

    Such a record does not say by which schema it is. By a changed file, older records would be dead letters
    or have other values. What a schema says to people does not count, nor where its file is.

    Raises:
        ConfigError: a file cannot be read, or has no JSON.
    """
    found: dict[str, Any] = {}
    for name, stream in pipeline.streams.items():
        if stream.schema_file is None or FORMATS[stream.format].schemas != "AVRO":
            continue
        try:
            found[name] = _undocumented(json.loads(SchemaFile.read(stream.schema_file).text))
        except ValueError as error:
            raise ConfigError(
                f"streams.{name}.schema_file: {stream.schema_file} is no JSON ({error}); name another"
            ) from None
    return found


def _undocumented(schema: Any) -> Any:
    """Return a schema without the texts for its readers."""
    if isinstance(schema, dict):
        return {name: _undocumented(part) for name, part in schema.items() if name != "doc"}
    return [_undocumented(part) for part in schema] if isinstance(schema, list) else schema


def same_expression(one: str, other: str) -> bool:
    """Return whether two valid expressions differ in spaces, comments and parentheses at most."""
    import duckdb  # which a job imports a tenth of a second later, if nothing has changed

    return str(duckdb.SQLExpression(one)) == str(duckdb.SQLExpression(other))
