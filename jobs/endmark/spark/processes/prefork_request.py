"""Asks `prefork` beside it for a process, and lives for as long as that one: the JVM takes it for it.

It imports little, and no module of ours, since the JVM waits for it several times. It passes on a signal to
end.
"""

import json
import os
import signal
import socket
import sys


def main() -> None:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.environ["ENDMARK_PREFORK"])
    request = {"arguments": sys.argv, "environment": dict(os.environ), "directory": os.getcwd()}  # noqa: PTH109  # pathlib takes long to import
    content = json.dumps(request).encode() + b"\n"
    sent = socket.send_fds(connection, [content], [0, 1, 2])
    connection.sendall(content[sent:])
    answer = connection.makefile("rb")
    pid = int(answer.readline())
    signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
    for stream in (0, 1, 2):
        os.close(stream)
    answer.read()


if __name__ == "__main__":
    main()
