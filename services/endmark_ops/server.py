"""The process of the sidecar, from opening its port until a signal ends it."""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Callable, Sequence
from typing import Any

import uvicorn

from endmark.errors import MissingPartError
from endmark_ops.answers.health import STALE_SECONDS
from endmark_ops.app import create_app
from endmark_ops.http.connections import BACKLOG, Connection, allow_files
from endmark_ops.http.limits import HEAD_BYTES, HEAD_SECONDS
from endmark_ops.http.tls import Certificate, connections
from endmark_ops.log import log_to_stderr
from endmark_ops.reach import Reach

_SHUTDOWN_SECONDS = 5
_GIVES_WAY = 10  # niceness, at most 19; on a machine that both share, the job goes first
_LOOPBACK = "127.0.0.1"
_EVERYWHERE = "0.0.0.0"  # noqa: S104


def serve(
    ops_url: str,
    port: int = 0,
    *,
    host: str = "127.0.0.1",
    stale_seconds: float = STALE_SECONDS,
    known_as: Sequence[str] = (),
    reach: Reach = Reach(),  # noqa: B008  # frozen
    tls: Certificate | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve the sidecar until SIGTERM or SIGINT, then finish open requests and return.

    Call this on the main thread. It lowers the priority of the whole process, so that the job goes first if
    there are too few cores for both.

    Args:
        ops_url: SQLAlchemy URL of the ops database.
        port: TCP port; 0 picks a free one.
        host: IPv4 address to listen on; use other addresses than loopback only in a container.
        stale_seconds: age of the last batch, in seconds, above which a running job counts as stale.
        known_as: host names that requests may be addressed to, besides those of loopback.
        reach: the tokens that callers have, and the broker and tables that the sidecar may use.
        tls: the certificate to show; `None` is plain HTTP.
        on_ready: called with the sidecar's URL on this machine once requests are answered; `None`: nothing.

    Raises:
        ConfigError: SQLAlchemy does not know `ops_url`, its driver is not installed, the certificate does
            not serve, or one of `known_as` is no host name.
        MissingPartError: the port cannot be opened, or the system allows too few open files.
    """
    log_to_stderr()
    allow_files()
    # h11, since httptools does not limit heads, and begins all requests of one piece at once.
    http: Any = Connection if tls is None else connections(tls.context())
    app = create_app(ops_url, stale_seconds, known_as, reach)
    with _listen(host, port) as listener:
        os.nice(_GIVES_WAY)
        address, port = listener.getsockname()
        # A server that listens everywhere listens on loopback, too, and trusts only that name in requests.
        scheme = "http" if tls is None else "https"
        url = f"{scheme}://{_LOOPBACK if address == _EVERYWHERE else address}:{port}/"
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # a client must not choose the address that its failed logins count for
            http=http,
            ws="none",
            h11_max_incomplete_event_size=HEAD_BYTES,
            timeout_keep_alive=int(HEAD_SECONDS),
            backlog=BACKLOG,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
        server = _Server(config, lambda: on_ready(url) if on_ready else None, app.state.feeds.close)
        # Uvicorn raises a signal again once it has shut down. Its own handler, installed here, makes that
        # harmless. It also catches a signal that comes before uvicorn installs it.
        previous = {name: signal.signal(name, server.handle_exit) for name in (signal.SIGINT, signal.SIGTERM)}
        try:
            server.run(sockets=[listener])
        finally:
            for name, handler in previous.items():
                signal.signal(name, handler)


class _Server(uvicorn.Server):
    """A uvicorn server that calls `announce` once it answers, and `ending` just before it ends."""

    def __init__(
        self, config: uvicorn.Config, announce: Callable[[], None], ending: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._announce = announce
        self._ending = ending

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._ending()
        await super().shutdown(sockets)


def _listen(host: str, port: int) -> socket.socket:
    # asyncio turns off Nagle's delay (40 ms per answer) only if the socket names its protocol.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        # Listening here makes a second process on this port fail here, and not in uvicorn.
        listener.listen()
    except OSError as error:
        listener.close()
        cause = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be opened ({error.strerror})"
        raise MissingPartError(
            f"port {port} on {host} {cause}; stop what holds it, or choose another port (0 picks a free one)"
        ) from error
    return listener
