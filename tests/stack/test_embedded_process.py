from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from endmark.embedded.claim import claimed
from endmark.embedded.ports import listens, require_free_port
from endmark.embedded.process import ManagedProcess
from endmark.errors import MissingPartError

SLEEPER = ["sleep", "600"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)",
]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].startswith(" Z")


def gone_within(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


def test_leaving_the_context_stops_the_child(tmp_path: Path) -> None:
    with ManagedProcess("sleeper", SLEEPER, tmp_path / "log") as child:
        assert child.running
        assert os.getpgid(child.pid) == child.pid
    assert not alive(child.pid)
    child.stop()
    child.kill()


def test_a_child_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = ManagedProcess("stubborn", STUBBORN, log, stop_seconds=0.3)
    child.wait_ready(lambda: "deaf" in log.read_text(), 60)
    child.stop()
    assert not child.running


def test_a_kill_takes_the_grandchildren_along(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = ManagedProcess("parent", ["sh", "-c", "sleep 600 & echo $!; wait"], log)
    child.wait_ready(lambda: log.read_text().endswith("\n"), 60)
    grandchild = int(log.read_text())
    child.kill()
    assert gone_within(grandchild, 60)


@pytest.mark.parametrize("when", ["while it starts", "while it runs"])
def test_the_end_of_our_process_is_the_end_of_the_child(tmp_path: Path, when: str) -> None:
    script = (
        "import os, sys; from pathlib import Path; from endmark.embedded.process import ManagedProcess\n"
        "log = Path(sys.argv[1])\n"
        "child = ManagedProcess('child', ['sh', '-c', 'echo up; exec sleep 600'], log)\n"
        "if sys.argv[2] == 'while it runs': child.wait_ready(lambda: 'up' in log.read_text(), 60)\n"
        "print(child.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "log"), when]
    parent = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    assert parent.returncode == -signal.SIGKILL
    assert gone_within(int(parent.stdout), 60)


def test_an_early_end_is_reported_with_this_starts_last_words(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("of an earlier start\n")
    child = ManagedProcess("thing", ["sh", "-c", "echo no such disk; exit 3"], log)
    with pytest.raises(MissingPartError) as caught:
        child.wait_ready(lambda: False, 60)
    text = str(caught.value)
    assert text.startswith("thing ended with code 3 before it was ready")
    assert text.endswith("no such disk")
    assert "earlier" not in text


def test_a_child_that_is_never_ready_is_stopped(tmp_path: Path) -> None:
    child = ManagedProcess("slow", SLEEPER, tmp_path / "log")
    with pytest.raises(MissingPartError, match="slow was not ready after 0 s"):
        child.wait_ready(lambda: False, 0.3)
    assert not alive(child.pid)


def test_an_interrupt_while_waiting_leaves_no_child(tmp_path: Path) -> None:
    def interrupt() -> bool:
        raise KeyboardInterrupt

    child = ManagedProcess("sleeper", SLEEPER, tmp_path / "log")
    with pytest.raises(KeyboardInterrupt):
        child.wait_ready(interrupt, 60)
    assert not alive(child.pid)


def test_waiting_for_the_childs_own_end(tmp_path: Path) -> None:
    ManagedProcess("good", ["true"], tmp_path / "log").wait_done(60)
    with pytest.raises(MissingPartError, match="bad failed with code 1"):
        ManagedProcess("bad", ["false"], tmp_path / "log").wait_done(60)
    slow = ManagedProcess("slow", SLEEPER, tmp_path / "log")
    with pytest.raises(MissingPartError, match="slow was not done after 0 s"):
        slow.wait_done(0.2)
    assert not alive(slow.pid)


def test_a_port_in_use_is_named(free_port: int) -> None:
    require_free_port(free_port, "thing")
    assert not listens(free_port)
    with socket.create_server(("127.0.0.1", free_port)):
        assert listens(free_port)
        with pytest.raises(MissingPartError, match=f"thing: port {free_port} of 127.0.0.1 is in use; stop"):
            require_free_port(free_port, "thing")


def test_a_claim_lasts_as_long_as_the_process_that_inherits_it(tmp_path: Path) -> None:
    with claimed(tmp_path / "new" / "data", "thing") as claim:
        child = ManagedProcess("sleeper", SLEEPER, tmp_path / "log", inherits=[claim])
    with pytest.raises(MissingPartError, match=r"other: another one runs in .*; stop it or give another"):
        claimed(tmp_path / "new" / "data", "other").__enter__()
    child.kill()
    with claimed(tmp_path / "new" / "data", "other"):
        pass


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MissingPartError, match=r"thing: cannot write to .*: Not a directory; give another"):
        claimed(tmp_path / "file" / "data", "thing").__enter__()
