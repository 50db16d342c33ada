"""A client of the sidecar's application in this process, by a host name that it answers to."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient


class OpsClient(TestClient):
    """A `TestClient` that asks `localhost`, as whoever sits at the machine does."""

    def __init__(self, app: FastAPI, **given: Any) -> None:
        super().__init__(app, base_url="http://localhost", **given)
