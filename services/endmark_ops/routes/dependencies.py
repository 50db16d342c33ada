"""What routes ask of the application."""

from __future__ import annotations

from typing import Annotated, Any, cast

from fastapi import Depends, Request

from endmark_ops.models import Problem
from endmark_ops.source import OpsSource

UNREADABLE: dict[int | str, dict[str, Any]] = {
    503: {"model": Problem, "description": "The ops database cannot be read"}
}


def _source(request: Request) -> OpsSource:
    return cast(OpsSource, request.app.state.source)


def _stale_seconds(request: Request) -> float:
    return cast(float, request.app.state.stale_seconds)


Source = Annotated[OpsSource, Depends(_source)]
StaleSeconds = Annotated[float, Depends(_stale_seconds)]
