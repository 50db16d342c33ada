"""A registry of schemas as tests start it: Apicurio, which has Confluent's API, out of an archive."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from endmark.embedded.jars import pinned_jars
from endmark.embedded.java import require_java
from endmark.embedded.ports import LOOPBACK, require_free_port
from endmark.embedded.process import ManagedProcess
from endmark.embedded.server import Part

_PINS = Path(__file__).parent / "apicurio"
_SECONDS = 120.0


class RegistryServer(Part):
    """A registry on 127.0.0.1. It has schemas in memory alone, and numbers them from 1."""

    @property
    def url(self) -> str:
        """The address of Confluent's API."""
        return f"http://{LOOPBACK}:{self._port}/apis/ccompat/v7"

    def register(self, subject: str, schema: Any, references: Sequence[Any] = ()) -> int:
        """Register a schema; return its id. A text is one of Protobuf, and anything else one of Avro.

        Args:
            subject: the subject that gets it as its next version.
            schema: the schema.
            references: the name, subject and version of each schema that it refers to.
        """
        document: dict[str, Any] = {"schema": json.dumps(schema), "references": [*references]}
        if isinstance(schema, str):
            document |= {"schema": schema, "schemaType": "PROTOBUF"}
        answer = httpx.post(f"{self.url}/subjects/{subject}/versions", json=document, timeout=30)
        return int(answer.raise_for_status().json()["id"])

    def start(self) -> None:
        require_free_port(self._port, "the registry")
        home = self._data_dir / "apicurio"
        if not home.exists():
            [archive] = pinned_jars(_PINS, "registry", "a registry of schemas", print)
            with tarfile.open(archive) as packed:
                packed.extractall(home, filter="data")
        [jar] = home.glob("*-runner.jar")
        command = [
            str(require_java()),
            "-Xmx300m",
            "-XX:TieredStopAtLevel=1",
            f"-Dquarkus.http.host={LOOPBACK}",
            f"-Dquarkus.http.port={self._port}",
            "-jar",
            str(jar),
        ]
        self._process = ManagedProcess("registry", command, self._data_dir / "server.log")
        self._process.wait_ready(self._answers, _SECONDS)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/subjects", timeout=5).is_success
        except httpx.HTTPError:
            return False
