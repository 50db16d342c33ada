"""The sockets and open files of processes, by Linux' own tables."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path

_LISTENS = "0A"


@dataclass(frozen=True)
class Listener:
    """A TCP port that a process listens on."""

    pid: int
    address: str
    port: int


@dataclass(frozen=True)
class OpenFile:
    """A file that a process has open; the path of a Unix socket is `socket` instead of `path`."""

    pid: int
    path: str
    socket: str


def descendants(pid: int) -> list[int]:
    """A process and all that it has started, directly or not, and that are alive."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            after_name = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        parents[int(entry.name)] = int(after_name[1])
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found


def signal_all(pid: int, number: signal.Signals) -> None:
    """Signal a process and all that it has started, which may be in several groups."""
    for each in descendants(pid):
        with suppress(ProcessLookupError):  # it has ended meanwhile
            os.kill(each, number)


def listeners(pids: Iterable[int]) -> list[Listener]:
    """Return the sockets on which these processes listen; `ipaddress` spells the addresses."""
    sockets = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS:
                address, _, port = fields[1].rpartition(":")
                sockets[f"socket:[{fields[9]}]"] = _address(address), int(port, 16)
    return [Listener(pid, *sockets[link]) for pid in pids for link in _links(pid) if link in sockets]


def open_files(pids: Iterable[int]) -> list[OpenFile]:
    """The files and bound Unix sockets that these processes have open."""
    sockets = {}
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split(maxsplit=7)
        if len(fields) == 8 and fields[7].startswith("/"):
            sockets[f"socket:[{fields[6]}]"] = fields[7]
    found = []
    for pid in pids:
        for link in _links(pid):
            if link in sockets:
                found.append(OpenFile(pid, "", sockets[link]))
            elif link.startswith("/"):
                found.append(OpenFile(pid, link, ""))
    return found


def open_sockets(pids: Iterable[int]) -> int:
    """The number of sockets that these processes have open."""
    return sum(link.startswith("socket:") for pid in pids for link in _links(pid))


def selectors(pids: Iterable[int]) -> int:
    """The number of selectors (Linux: epoll instances) that these processes have open."""
    return sum(link == "anon_inode:[eventpoll]" for pid in pids for link in _links(pid))


def _links(pid: int) -> list[str]:
    links = []
    for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            links.append(str(descriptor.readlink()))
        except OSError:
            continue  # it has been closed meanwhile
    return links


def _address(words: str) -> str:
    """Words of four bytes in the machine's order, which is that of Intel and ARM."""
    packed = b"".join(bytes.fromhex(words[at : at + 8])[::-1] for at in range(0, len(words), 8))
    if len(packed) == 4:
        return socket.inet_ntoa(packed)
    address = IPv6Address(packed)
    return f"::ffff:{address.ipv4_mapped}" if address.ipv4_mapped else str(address)
