"""A door in front of an S3 server that passes requests on, except for those at which it does harm.

It is a process of its own, since delta-rs lets no other thread run Python while it waits for a store.
"""

from __future__ import annotations

import http.client
import json
import re
import sys
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from endmark.embedded.ports import LOOPBACK, free_port, listens
from endmark.embedded.process import ManagedProcess

if TYPE_CHECKING:
    from support.s3_server import S3Server

REFUSE, SLOW_DOWN, LOSE = "AccessDenied", "SlowDown", "InternalError"  # the codes that S3 answers with
_STATUS = {REFUSE: 403, SLOW_DOWN: 503, LOSE: 503}
_SECONDS = 60.0


@dataclass
class Harm:
    """A harm that is done to requests.

    Args:
        code: the code to answer with. Only a request whose answer is lost is passed on.
        of: a regular expression of the requests, such as `PUT /bucket/key`.
        times: the number of requests that are harmed.
        after: the number of such requests before them that are not.
    """

    code: str
    of: str
    times: int
    after: int = 0


class Door:
    """A server on 127.0.0.1 before another one."""

    def __init__(self, server: S3Server, directory: Path, harm: Harm) -> None:
        self._port = free_port()
        self._log = directory / f"door-{self._port}.log"
        behind = server.endpoint.removeprefix("http://")
        self._command = [sys.executable, __file__, str(self._port), behind, json.dumps(asdict(harm))]
        self.endpoint = f"http://{LOOPBACK}:{self._port}"

    @property
    def harmed(self) -> list[str]:
        """The requests that were harmed."""
        return [line for line in self._log.read_text().splitlines() if re.match("[A-Z]+ /", line)]

    def __enter__(self) -> Self:
        self._process = ManagedProcess("door", self._command, self._log)
        self._process.wait_ready(lambda: listens(self._port), _SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()


def main() -> None:
    """Serve until killed."""
    port, behind, harm = int(sys.argv[1]), sys.argv[2], Harm(**json.loads(sys.argv[3]))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_request(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = f"{self.command} {self.path}"
            meant = re.fullmatch(harm.of, request) is not None
            harmed = meant and harm.after <= 0 and harm.times > 0
            harm.after -= meant
            if harmed:
                harm.times -= 1
                print(request, flush=True)
            headers: dict[str, str] = {}
            status, answer = _STATUS[harm.code], f"<Error><Code>{harm.code}</Code></Error>".encode()
            if not harmed:
                status, headers, answer = _passed_on(behind, self, body)
            elif harm.code == LOSE:
                _passed_on(behind, self, body)
            self.send_response_only(status)
            for name, value in headers.items():
                if name.lower() not in {"transfer-encoding", "content-length"}:
                    self.send_header(name, value)
            size = headers.get("Content-Length") if self.command == "HEAD" else None
            self.send_header("Content-Length", size or str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_request  # noqa: N815  # names of http.server

        def log_message(self, *_: Any) -> None:
            pass

    ThreadingHTTPServer((LOOPBACK, port), Handler).serve_forever()


def _passed_on(behind: str, asked: BaseHTTPRequestHandler, body: bytes) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(behind)
    # The host stays as it is, since the signature covers it.
    connection.putrequest(asked.command, asked.path, skip_host=True, skip_accept_encoding=True)
    for name, value in asked.headers.items():
        connection.putheader(name, value)
    connection.endheaders(body)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), content


if __name__ == "__main__":
    main()
