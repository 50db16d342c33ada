"""An S3 server as tests start it: s3proxy over a directory, out of jars."""

from __future__ import annotations

import secrets
from pathlib import Path

from endmark.embedded.jars import pinned_jars
from endmark.embedded.java import require_java
from endmark.embedded.ports import LOOPBACK, listens, require_free_port
from endmark.embedded.process import ManagedProcess
from endmark.embedded.server import Part

_PINS = Path(__file__).parent / "s3proxy"
_SECONDS = 60.0
_LOGGING = """<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""


class S3Server(Part):
    """A server on 127.0.0.1 that checks signatures and honours the conditions of puts.

    Attributes:
        key: the only access key.
        secret: its secret, which is made anew for each server.
    """

    key = "endmark"

    def __init__(self, data_dir: Path, port: int | None = None) -> None:
        super().__init__(data_dir, port)
        self.secret = secrets.token_urlsafe(24)
        self.objects = self._data_dir / "objects"

    @property
    def endpoint(self) -> str:
        return f"http://{LOOPBACK}:{self._port}"

    def environment(self, endpoint: str | None = None) -> dict[str, str]:
        """The variables by which a client finds the server, maybe through another endpoint, and logs in."""
        return {
            "AWS_ENDPOINT_URL": endpoint or self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
        }

    def make_bucket(self, name: str) -> str:
        """Make a bucket; return its URL."""
        (self.objects / name).mkdir(parents=True)
        return f"s3://{name}"

    def start(self) -> None:
        require_free_port(self._port, "s3proxy")
        self.objects.mkdir(parents=True, exist_ok=True)
        settings, logging = self._data_dir / "s3proxy.conf", self._data_dir / "logback.xml"
        given = {
            "s3proxy.endpoint": self.endpoint,
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": self.key,
            "s3proxy.credential": self.secret,
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": self.objects,
        }
        settings.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
        logging.write_text(_LOGGING)
        jars = ":".join(map(str, pinned_jars(_PINS, "s3", "an S3 server", print)))
        command = [
            str(require_java()),
            "-Xmx256m",
            "-XX:TieredStopAtLevel=1",
            f"-Dlogback.configurationFile={logging}",
            "-cp",
            jars,
        ]
        command += ["org.gaul.s3proxy.Main", "--properties", str(settings)]
        self._process = ManagedProcess("s3proxy", command, self._data_dir / "server.log")
        self._process.wait_ready(lambda: listens(self._port), _SECONDS)
