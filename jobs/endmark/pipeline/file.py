"""Reads a pipeline file: fills `${NAME}` from the environment, and makes errors that name field and line."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from endmark.errors import ConfigError
from endmark.pipeline import Pipeline
from endmark.pipeline.boundedness import require_bounded
from endmark.pipeline.fields import fields_of
from endmark.pipeline.kafka import Kafka
from endmark.pipeline.text import PipelineText

_VARIABLE = re.compile(r"\$\{([A-Z][A-Z0-9_]*)(?::-([^}]*))?\}")
_MOST_PROBLEMS = 20
_PROBLEM_LENGTH = 500
_FIELD = re.compile(r"([a-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*): ")


def _fill(text: str, environment: dict[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        if name in environment:
            return environment[name]
        if (file := environment.get(f"{name}_FILE")) is not None:
            return _secret(name, file)
        if default is not None:
            return default
        raise ConfigError(f"environment variable {name} is not set, but the pipeline file uses ${{{name}}}")

    return _VARIABLE.sub(value, text)


def _secret(name: str, file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name}_FILE: {file} cannot be read: {error}") from None


def _fill_values(
    node: Any, environment: dict[str, str], text: PipelineText, path: tuple[str, ...] = ()
) -> Any:
    # The text is parsed before, so that a value with a colon, quote or line break cannot change the document.
    if isinstance(node, dict):
        return {key: _fill_values(value, environment, text, (*path, key)) for key, value in node.items()}
    if isinstance(node, list):
        return [_fill_values(value, environment, text, (*path, str(at))) for at, value in enumerate(node)]
    if not isinstance(node, str):
        return node
    try:
        return _fill(node, environment)
    except ConfigError as error:
        raise ConfigError(_problem(text, path, str(error))) from None


def load(
    path: Path,
    environment: dict[str, str] | None = None,
    assignments: Sequence[str] = (),
    *,
    asks_relations: bool = True,
) -> Pipeline:
    """Read and check a pipeline file.

    Args:
        path: the file, in YAML.
        environment: the environment variables that fill `${NAME}`. NAME has the value itself, or NAME_FILE
            names a file that holds it. `None`: the environment of the process.
        assignments: fields to set before the check, such as `steps.matched.window=10s`.
        asks_relations: whether the caller asks the databases of relations. Others need no address of them,
            which has a password, so their `url` stays empty.

    Raises:
        ConfigError: the file cannot be read, a field is wrong, or some state would grow for ever. The error
            names the file and every such field.
    """
    environment = dict(os.environ) if environment is None else environment
    text = PipelineText(path)
    for assignment in assignments:
        text.set(assignment)
    document = text.document if asks_relations else _without_urls(text.document)
    try:
        pipeline = Pipeline.model_validate(_fill_values(document, environment, text))
        require_bounded(pipeline)
    except ConfigError as error:
        raise ConfigError(f"{path}: {_problem(text, (), str(error), _named(str(error)))}") from error
    except ValidationError as error:
        raise ConfigError(f"{path}: {_explain(error, text)}") from error
    return pipeline


def located(path: Path, error: ConfigError) -> ConfigError:
    """Return the error of a later check, with the file and the line of the field that it names.

    Args:
        path: the file, which `load` has read.
        error: the error, which begins with the name of a field.
    """
    return ConfigError(f"{path}: {_problem(PipelineText(path), (), str(error), _named(str(error)))}")


def _without_urls(document: dict[str, Any]) -> dict[str, Any]:
    """Return a pipeline file's document in which each text `url` of a relation is empty."""
    relations = document.get("relations")
    if not isinstance(relations, dict):
        return document
    emptied = {
        name: {**relation, "url": ""}
        if isinstance(relation, dict) and isinstance(relation.get("url"), str)
        else relation
        for name, relation in relations.items()
    }
    return {**document, "relations": emptied}


def load_kafka(path: Path, environment: dict[str, str] | None = None) -> Kafka:
    """Read the section `kafka` of a file, which may be a pipeline file.

    Args:
        path: the file, in YAML.
        environment: as in `load`.

    Raises:
        ConfigError: the file cannot be read, lacks the section, or a field of the section is wrong.
    """
    environment = dict(os.environ) if environment is None else environment
    text = PipelineText(path)
    if "kafka" not in text.document:
        raise ConfigError(f"{path}: it has no section kafka; add one with bootstrap, and with tls or sasl")
    try:
        section = _fill_values({"kafka": text.document["kafka"]}, environment, text)
        return _OfKafka.model_validate(section).kafka
    except ValidationError as error:
        raise ConfigError(f"{path}: {_explain(error, text)}") from error


class _OfKafka(BaseModel):
    kafka: Kafka


# Errors that pydantic tells in terms of Python, by its name of them.
_IN_WORDS = {
    "dict_type": "write names with values here, such as {name: value}",
    "model_type": "write names with values here, such as {name: value}",
    "missing": "this field is missing, and has no default",
}


def _explain(error: ValidationError, text: PipelineText) -> str:
    lines = []
    for problem in error.errors(include_url=False):
        # Parts that begin with a bracket, such as pydantic's `[key]` and our tags, are not in the file.
        parts = [part for part in map(str, problem["loc"]) if not part.startswith("[")]
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            message = f"unknown field{_meant(parts)}"
        message = _IN_WORDS.get(problem["type"], message)
        lines.append(_problem(text, parts, message, [*parts, *_named(message)]))
    if (more := len(lines) - _MOST_PROBLEMS) > 0:
        lines[_MOST_PROBLEMS:] = [f"and {more:,} more"]
    return "; ".join(lines)


def _named(message: str) -> list[str]:
    """Return the field with which the message of a check across fields begins; empty without one."""
    named = _FIELD.match(message)
    return named[1].split(".") if named else []


def _problem(
    text: PipelineText, parts: Sequence[str], message: str, within: Sequence[str] | None = None
) -> str:
    """Describe the error of a field, with the line of this field or of the field `within` it."""
    line = text.line_of(parts if within is None else within)
    problem = f"{'.'.join(parts)}: {message}" if parts else message
    problem = problem if len(problem) <= _PROBLEM_LENGTH else f"{problem[:_PROBLEM_LENGTH]}…"
    return problem if line is None else f"line {line}: {problem}"


def _meant(unknown: Sequence[str]) -> str:
    near = difflib.get_close_matches(unknown[-1], fields_at(unknown[:-1]), n=1)
    return f", did you mean {near[0]}?" if near else ""


def fields_at(path: Sequence[str]) -> list[str]:
    """Return the fields that a path of a pipeline file may have, such as those of `batch`."""
    models: list[type[BaseModel]] = [Pipeline]
    for name in path:
        inner = [
            found
            for model in models
            if (field := fields_of(model).get(name)) is not None
            for found in _models(field.annotation)
        ]
        models = inner or models  # names of streams and numbers of list items stay at the same models
    return sorted({name for model in models for name in fields_of(model)})


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The models that occur in a type annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in _models(part)]
