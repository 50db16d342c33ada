"""A Kafka broker that clients reach by a link, too."""

from __future__ import annotations

import re
from pathlib import Path

from endmark.embedded.broker import Broker
from endmark.embedded.ports import LOOPBACK
from processes.link import Link


class LinkedBroker(Broker):
    """A broker with a second listener behind a link. It tells clients of that listener the link's address.

    Args:
        data_dir: the directory of the broker's topics.
        link: the link, whose target is the port of the second listener.
    """

    def __init__(self, data_dir: Path, link: Link) -> None:
        super().__init__(data_dir, say=print)
        self._link = link

    def _write_settings(self) -> Path:
        path = super()._write_settings()
        text = path.read_text()
        for name, more in {
            "listeners": f"LINKED://{LOOPBACK}:{self._link.target}",
            "advertised.listeners": f"LINKED://{LOOPBACK}:{self._link.port}",
            "listener.security.protocol.map": "LINKED:PLAINTEXT",
        }.items():
            text = re.sub(rf"^({re.escape(name)}=.*)$", rf"\1,{more}", text, flags=re.MULTILINE)
        path.write_text(text)
        return path
