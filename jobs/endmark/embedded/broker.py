"""A single-node Kafka broker as a child process."""

from __future__ import annotations

import base64
import os
import shlex
import uuid
from collections.abc import Callable
from pathlib import Path

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from endmark.embedded.claim import claimed
from endmark.embedded.jars import broker_jars
from endmark.embedded.java import require_java
from endmark.embedded.ports import LOOPBACK, free_port, listens, require_free_port
from endmark.embedded.process import ManagedProcess
from endmark.embedded.server import Part

_LOGGING = Path(__file__).with_name("log4j2-broker.xml")
_FORMAT_SECONDS = 60.0
_START_SECONDS = 60.0

# The broker is a single node with a heap of 512 MiB. So it has one replica, small internal topics and a small
# cleaner buffer. Records never expire, since verifying a run reads its topics again from their beginning. A
# restart after a crash waits for the end of the crashed broker's session, so sessions are short.
_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={logs}
log.retention.ms=-1
log.cleaner.dedupe.buffer.size=8388608
auto.create.topics.enable=false
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""


def _silent(line: str) -> None: ...


class Broker(Part):
    """A Kafka broker on 127.0.0.1 whose topics outlast restarts.

    Its Java gets the options in the environment variable `ENDMARK_BROKER_JAVA_OPTIONS`.

    The broker ends with this process. Acknowledged records survive its end. They are not forced to disk, so a
    power cut may lose them.

    Args:
        data_dir: the directory of the broker's topics.
        port: the broker's port; `None` takes a free one and keeps it over restarts of this object.
        say: called with lines of progress while jars are fetched.
    """

    def __init__(self, data_dir: Path, port: int | None = None, say: Callable[[str], None] = _silent) -> None:
        super().__init__(data_dir, port)
        self._say = say

    @property
    def bootstrap(self) -> str:
        return f"{LOOPBACK}:{self._port}"

    def start(self) -> None:
        """Start the broker, and return once it answers, in a few seconds.

        Raises:
            MissingPartError: Java or jars are missing, port or directory are in use, or the broker fails.
        """
        require_free_port(self._port, "Kafka broker")
        classpath = os.pathsep.join(str(jar) for jar in broker_jars(self._say))
        java = [str(require_java()), "-Xmx512m", f"-Dlog4j2.configurationFile={_LOGGING}"]
        java += [*self._java_options, "-cp", classpath]
        with claimed(self._data_dir, "Kafka broker") as claim:
            settings = self._write_settings()
            self._format_once(java, settings)
            command = [*java, "kafka.Kafka", str(settings)]
            self._process = ManagedProcess("Kafka broker", command, self._log, inherits=[claim])
        self._process.wait_ready(self._answers, _START_SECONDS)

    @property
    def _java_options(self) -> list[str]:
        return shlex.split(os.environ.get("ENDMARK_BROKER_JAVA_OPTIONS", ""))

    @property
    def _log(self) -> Path:
        return self._data_dir / "broker.log"

    @property
    def _logs(self) -> Path:
        return self._data_dir / "topics"

    def _write_settings(self) -> Path:
        path = self._data_dir / "server.properties"
        # In properties files, a backslash begins an escape.
        logs = str(self._logs).replace("\\", "\\\\")
        controller_port = free_port()
        path.write_text(
            _SETTINGS.format(host=LOOPBACK, port=self._port, controller_port=controller_port, logs=logs)
        )
        return path

    def _format_once(self, java: list[str], settings: Path) -> None:
        if (self._logs / "meta.properties").exists():
            return
        command = [*java, "kafka.tools.StorageTool", "format", "--config", str(settings)]
        command += [f"--cluster-id={self._cluster_id}"]
        ManagedProcess("formatting the broker's storage", command, self._log).wait_done(_FORMAT_SECONDS)

    @property
    def _cluster_id(self) -> str:
        return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")

    def _answers(self) -> bool:
        # The client logs each refused connection as an error, so it is used only once the port is open.
        if not listens(self._port):
            return False
        try:
            admin = KafkaAdminClient(bootstrap_servers=self.bootstrap, bootstrap_timeout_ms=2000)
        except KafkaError:
            return False
        try:
            return bool(admin.describe_cluster()["brokers"])
        except KafkaError:
            return False
        finally:
            admin.close()
