"""A process that is forked for the JVM is like one that it has started itself, but for its imports."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from endmark.spark import session, session_start
from endmark.spark.processes import prefork
from support.processes import descendants

PROGRAM = """
import json, os, sys
said = json.loads(sys.stdin.readline())
print(json.dumps({
    "said": said, "arguments": sys.argv[1:], "value": os.environ["VALUE"], "directory": os.getcwd(),
    "imported": "pyspark.worker" in sys.modules, "hash": hash("text"), "pid": os.getpid(),
}), flush=True)
sys.stdin.readline()
print("ends", file=sys.stderr)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A server whose processes find the program above, as a module `program`."""
    place = tmp_path_factory.mktemp("modules")
    (place / "program.py").write_text(PROGRAM)
    (place / "failing.py").write_text("raise ValueError('as it must')")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{place}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        patch.setenv("ENDMARK_WORKER_PYTHON", sys.executable)
        patch.setenv("ENDMARK_WORKER_PATH", os.environ["PYTHONPATH"])
        with prefork.preforking() as start:
            start()
            until = time.monotonic() + 60
            while not Path(os.environ[prefork.SOCKET]).exists():
                assert time.monotonic() < until
                time.sleep(0.01)
            yield place


def started(module: str, *arguments: str, directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [session._WORKERS, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"VALUE": "a\nb"},
        cwd=directory,
        text=True,
    )


def line(process: subprocess.Popen[str], text: str) -> dict[str, object]:
    """Send a line to a process, and return its answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{text}\n")
    process.stdin.flush()
    found: dict[str, object] = json.loads(process.stdout.readline())
    return found


def test_a_process_has_its_streams_arguments_and_environment(server: Path) -> None:
    """Two at once do not get each other's. Each lives until its own program ends."""
    first, second = (started("program", name, "--x=1", directory=server) for name in ("one", "two"))
    hashed = [sys.executable, "-c", "print(hash('text'))"]
    answers = [line(process, f'"to {name}"') for process, name in ((second, "two"), (first, "one"))]

    for answer, name in zip(answers, ("two", "one"), strict=True):
        assert answer == {
            "said": f"to {name}",
            "arguments": [name, "--x=1"],
            "value": "a\nb",
            "directory": str(server),
            "imported": True,
            "hash": int(subprocess.check_output(hashed, env=os.environ | {"PYTHONHASHSEED": "0"})),
            "pid": answer["pid"],
        }
    assert second.poll() is None
    assert second.communicate("\n", timeout=60) == ("", "ends\n")
    assert first.poll() is None
    assert first.communicate("\n", timeout=60) == ("", "ends\n")


def test_an_error_is_told_where_the_jvm_reads_it(server: Path) -> None:
    process = started("failing", directory=server)

    said, told = process.communicate(timeout=60)
    assert said == ""
    assert told.splitlines()[-1] == "ValueError: as it must"


@pytest.mark.parametrize("name", prefork._RUN)
def test_a_module_of_spark_is_run_without_a_warning(server: Path, name: str) -> None:
    """The module ends at once, since it finds no port of a JVM."""
    process = started(name, directory=server)

    _, told = process.communicate(timeout=60)
    assert told.splitlines()[-1].startswith("socket.gaierror: ")
    assert "RuntimeWarning" not in told


def test_a_process_ends_by_the_signal_that_the_jvm_sends(server: Path) -> None:
    process = started("program", directory=server)
    pid = line(process, "0")["pid"]
    assert isinstance(pid, int)
    process.send_signal(signal.SIGTERM)

    process.communicate(timeout=60)
    until = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize(("master", "port"), [("spark://host:7077", ""), ("local[2]", "7")])
def test_a_jvm_that_starts_python_in_its_own_way_has_no_server(
    master: str, port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With another master, or under spark-submit. A local one has a server."""
    monkeypatch.setattr(session_start, "start_session", lambda *_, **__: None)
    monkeypatch.setenv(prefork.SOCKET, "of another server")
    started: list[int] = []
    for where, of_submit in ((master, port), ("local[2]", "")):
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", of_submit)
        if not of_submit:
            monkeypatch.delenv("PYSPARK_GATEWAY_PORT")
        before = set(descendants(os.getpid()))
        with session_start.session_starting("x", [], master=where, buckets=1, driver_memory="1g") as session:
            session()
            started.append(len(set(descendants(os.getpid())) - before))

    assert started == [0, 1]


def test_an_interrupt_during_the_imports_is_not_for_the_server(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(prefork.SOCKET, "of another server")
    before = set(descendants(os.getpid()))
    with prefork.preforking() as start:
        path = Path(os.environ[prefork.SOCKET])
        start()
        [server] = set(descendants(os.getpid())) - before
        until = time.monotonic() + 60
        while not path.exists():
            assert time.monotonic() < until
            os.kill(server, signal.SIGINT)
            time.sleep(0.01)

    assert capfd.readouterr().err == ""


def test_nothing_is_left_of_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(prefork.SOCKET, "of another server")
    before = set(descendants(os.getpid()))
    with prefork.preforking() as start:
        path = Path(os.environ[prefork.SOCKET])
        for _ in range(2):
            start()
            assert len(set(descendants(os.getpid())) - before) == 1

    assert not set(descendants(os.getpid())) - before
    assert prefork.SOCKET not in os.environ
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_whoever_ends_before_it_has_said_everything_is_forgotten(server: Path) -> None:
    """The next one is served. Without that, the server read from a closed connection for ever."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ[prefork.SOCKET])
        socket.send_fds(connection, [b"{"], [0, 1, 2])

    process = started("program", directory=server)

    assert line(process, '"served"')["said"] == "served"
    process.communicate("")
