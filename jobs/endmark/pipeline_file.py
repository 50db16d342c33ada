"""Reading a pipeline file: YAML, `${NAME}` filled from the environment, and errors that name the field."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from endmark.errors import ConfigError
from endmark.pipeline import Pipeline
from endmark.pipeline.boundedness import require_bounded

_VARIABLE = re.compile(r"\$\{([A-Z][A-Z0-9_]*)(?::-([^}]*))?\}")


class _Loader(yaml.SafeLoader):
    """YAML 1.2's idea of a boolean: in YAML 1.1, `on: item_id` has the key True."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("true|false"), list("tf"))


def _fill(text: str, environment: dict[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        if name in environment:
            return environment[name]
        if default is not None:
            return default
        raise ConfigError(f"environment variable {name} is not set, but the pipeline file uses ${{{name}}}")

    return _VARIABLE.sub(value, text)


def _fill_values(node: Any, environment: dict[str, str]) -> Any:
    # After parsing, so that a value with a colon, a quote or a line break cannot change the document.
    if isinstance(node, str):
        return _fill(node, environment)
    if isinstance(node, dict):
        return {key: _fill_values(value, environment) for key, value in node.items()}
    if isinstance(node, list):
        return [_fill_values(value, environment) for value in node]
    return node


def load(path: Path, environment: dict[str, str] | None = None) -> Pipeline:
    """Read and check a pipeline file.

    Raises:
        ConfigError: naming the file and every field that is wrong, or state that would grow for ever.
    """
    environment = dict(os.environ) if environment is None else environment
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506  # a SafeLoader
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the pipeline file: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a YAML document: {error}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: a pipeline file is a mapping with name, streams, relations, lookup, join")
    try:
        pipeline = Pipeline.model_validate(_fill_values(document, environment))
        require_bounded(pipeline)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    except ValidationError as error:
        raise ConfigError(f"{path}: {_explain(error)}") from error
    return pipeline


def _explain(error: ValidationError) -> str:
    lines = []
    for problem in error.errors(include_url=False):
        parts = map(str, problem["loc"])
        field = ".".join(part for part in parts if not part.startswith("["))  # pydantic's own words
        text = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            text = "unknown field"
        lines.append(f"{field}: {text}" if field else text)
    return "; ".join(lines)
