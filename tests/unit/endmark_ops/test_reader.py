"""Callers of an ops database that does not answer: they wait once, together, and then no more."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from endmark.errors import UnreachableError
from endmark_ops.readers import source
from endmark_ops.readers.source import OpsReader, UnreadableError

pytestmark = pytest.mark.timeout(120)
MOST_SECONDS = 20


class Server:
    """An ops database that is away. Whoever opens it waits until it `refuses`."""

    def __init__(self) -> None:
        self.asked = threading.Semaphore(0)
        self.refuses = threading.Event()
        self.attempts = 0

    def open(self, _url: str) -> None:
        self.attempts += 1
        self.asked.release()
        self.refuses.wait()
        raise UnreachableError("it is away")


class WatchedLock:
    """A lock that says when a thread is about to wait for it."""

    waiting = threading.Semaphore(0)

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def acquire(self, blocking: bool = True) -> bool:
        if blocking and self._lock.locked():
            self.waiting.release()
        return self._lock.acquire(blocking)

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()
    monkeypatch.setattr(source, "OpsDatabase", server.open)
    return server


def is_unreadable(asked: Future[Sequence[str]]) -> bool:
    return isinstance(asked.exception(timeout=MOST_SECONDS), UnreadableError)


def test_a_caller_does_not_wait_while_another_one_tries_again(server: Server) -> None:
    """Each of them waited 20 s after all before it, so the third one had no answer at all."""
    reader = OpsReader("mysql://u:p@127.0.0.1/ops")
    with ThreadPoolExecutor(3) as callers:
        server.refuses.set()
        assert is_unreadable(callers.submit(reader.pipelines))
        server.refuses.clear()
        tries = callers.submit(reader.pipelines)
        assert server.asked.acquire(timeout=MOST_SECONDS)
        assert server.asked.acquire(timeout=MOST_SECONDS)
        try:
            assert is_unreadable(callers.submit(reader.pipelines))
            assert not tries.done()
        finally:
            server.refuses.set()
        assert is_unreadable(tries)
    assert server.attempts == 2


def test_callers_that_wait_for_the_first_attempt_share_its_end(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(source, "Lock", WatchedLock)
        reader = OpsReader("mysql://u:p@127.0.0.1/ops")
    with ThreadPoolExecutor(3) as callers:
        first = callers.submit(reader.pipelines)
        assert server.asked.acquire(timeout=MOST_SECONDS)
        others = [callers.submit(reader.pipelines) for _ in range(2)]
        try:
            assert all(WatchedLock.waiting.acquire(timeout=MOST_SECONDS) for _ in others)
        finally:
            server.refuses.set()
        assert all(is_unreadable(asked) for asked in (first, *others))
    assert server.attempts == 1
