"""The OpenAPI document of the sidecar, with the token that each route needs."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from endmark_ops.answers.models import Problem
from endmark_ops.http.access import READS

_TOKEN = "token"  # noqa: S105  # the scheme's name
_SCHEME = {
    "type": "http",
    "scheme": "bearer",
    "description": "One of the sidecar's tokens",
}
_REFUSALS = {
    "401": "No token, or one that is not known",
    "403": "Writes are off, or the token may read only, or may not see this pipeline",
}


def document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of the sidecar, which is made at the first call and then kept."""
    if app.openapi_schema is None:
        found = get_openapi(title=app.title, version=app.version, routes=app.routes)
        components = found.setdefault("components", {})
        components["securitySchemes"] = {_TOKEN: _SCHEME}
        components.setdefault("schemas", {})["Problem"] = Problem.model_json_schema()
        for path, operations in found["paths"].items():
            for method, operation in operations.items():
                if path != "/healthz":
                    _guarded(operation, reads=method.upper() in READS, of_pipeline="{pipeline}" in path)
        app.openapi_schema = found
    return app.openapi_schema


def _guarded(operation: dict[str, Any], *, reads: bool, of_pipeline: bool) -> None:
    operation["security"] = [{}, {_TOKEN: []}] if reads else [{_TOKEN: []}]
    refused = {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    # A token may be for other pipelines, so reads of one are refused, too.
    for status in ("401", "403") if of_pipeline or not reads else ("401",):
        operation["responses"][status] = {"description": _REFUSALS[status], "content": refused}
