"""The broker of docker-compose.yml as a process on loopback, with its settings, secrets and users."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import yaml
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from endmark.embedded.broker import Broker
from endmark.embedded.ports import free_port, listens
from endmark.kafka.cluster import KafkaCluster
from endmark.pipeline.file import load_kafka

_ROOT = Path(__file__).parents[2]
_COMPOSE: dict[str, Any] = yaml.safe_load((_ROOT / "docker-compose.yml").read_text())
_IN_CONTAINERS = "/run/secrets/"
_INIT_SECONDS = 120


class ComposedBroker(Broker):
    """A broker with four listeners, of which none lets everybody do everything.

    Args:
        data_dir: the directory of its topics.
        secrets: a directory with all secrets, under the names that they have in containers.
    """

    def __init__(self, data_dir: Path, secrets: Path) -> None:
        super().__init__(data_dir)
        self._secrets = secrets
        self._ports = {19092: free_port(), 9092: self._port, 19093: free_port(), 9093: free_port()}

    @property
    def with_login(self) -> str:
        """The address that containers use."""
        return f"localhost:{self._ports[19092]}"

    @property
    def with_certificate(self) -> str:
        """The address of the listener where the administrator's certificate may do everything."""
        return f"localhost:{self._ports[19093]}"

    def init(self) -> None:
        """Make topics, users and rights, as the service `init` does."""
        command = [sys.executable, str(_ROOT / "infra/kafka/init.py")]
        command += [self.with_certificate, str(self._secrets)]
        subprocess.run(command, check=True, timeout=_INIT_SECONDS)

    def cluster(self, user: str) -> KafkaCluster:
        """Return the cluster as the parts without a pipeline file see it."""
        file = self._data_dir / "client.yaml"
        text = (_ROOT / "infra/kafka/client.yaml").read_text()
        file.write_text(text.replace("broker:19092", self.with_login).replace(_IN_CONTAINERS, self._place))
        password = str(self._secrets / f"kafka_{user}")
        return load_kafka(file, {"KAFKA_USER": user, "KAFKA_PASSWORD_FILE": password}).cluster()

    @property
    def _place(self) -> str:
        return f"{self._secrets}/"

    def _write_settings(self) -> Path:
        given: dict[str, object] = dict(_COMPOSE["services"]["broker"]["environment"])
        given["KAFKA_LOG_DIRS"] = self._logs
        settings = "".join(f"{_name(variable)}={value}\n" for variable, value in given.items())
        for port, ours in self._ports.items():
            settings = re.sub(rf"(?<=:){port}\b", str(ours), settings)
        settings = settings.replace("://:", "://localhost:").replace("://broker:", "://localhost:")
        path = self._data_dir / "server.properties"
        path.write_text(settings.replace(_IN_CONTAINERS, self._place))
        return path

    def _answers(self) -> bool:
        if not listens(self._ports[19093]):
            return False
        try:
            admin = KafkaAdminClient(
                bootstrap_servers=self.with_certificate,
                security_protocol="SSL",
                ssl_cafile=str(self._secrets / "kafka_ca"),
                ssl_certfile=str(self._secrets / "kafka_broker"),
                bootstrap_timeout_ms=2000,
            )
        except KafkaError:
            return False
        with closing(admin):
            return bool(admin.describe_cluster()["brokers"])


def make_secrets(directory: Path) -> Path:
    """Make all secrets of docker-compose.yml below a directory; return where they are as in containers."""
    (directory / "secrets").mkdir(parents=True)
    script = directory / "make-secrets.sh"
    script.write_text((_ROOT / "infra/make-secrets.sh").read_text())
    subprocess.run(["sh", script], check=True)
    mounted = directory / "mounted"
    mounted.mkdir()
    for name, secret in _COMPOSE["secrets"].items():
        (mounted / name).symlink_to(directory / "secrets" / Path(secret["file"]).name)
    return mounted


def _name(variable: str) -> str:
    """Return the setting that a variable of the broker's image sets."""
    return variable.removeprefix("KAFKA_").lower().replace("___", "-").replace("_", ".")
