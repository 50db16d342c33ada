"""Private directories: whose they are, who tidies up, and what a neighbour can do about it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

from endmark.engine.segment_cache import PREFIX
from endmark.private import private_directory, remove_orphans

NOBODY = 65534
# Makes a directory, says which, and ends when its input does.
MAKES = """
import os, sys
from pathlib import Path
from endmark.private import private_directory

print(private_directory("kept-", Path(sys.argv[1])), flush=True)
if sys.stdin.read() == "killed":
    os._exit(1)
"""


def maker(parent: Path) -> tuple[subprocess.Popen[str], Path]:
    command = [sys.executable, "-c", MAKES, str(parent)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_others_have_no_rights_whatever_the_mask(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        directory = private_directory("kept-", tmp_path)
    finally:
        os.umask(mask)

    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert directory.stat().st_uid == os.geteuid()
    assert private_directory("kept-", tmp_path) != directory


def test_it_goes_with_its_process_and_else_with_the_next_one(tmp_path: Path) -> None:
    """While a process lives, no other takes its directory for an orphan."""
    alive, kept = maker(tmp_path)
    ended, removed = maker(tmp_path)
    killed, orphan = maker(tmp_path)
    ended.communicate("")
    killed.communicate("killed")
    assert kept.exists()
    assert not removed.exists()
    assert orphan.exists()

    (orphan / "below").mkdir()
    remove_orphans("kept-", tmp_path)

    assert list(tmp_path.iterdir()) == [kept]
    alive.communicate("")
    assert list(tmp_path.iterdir()) == []


def test_a_fork_holds_the_directory_and_does_not_remove_it(tmp_path: Path) -> None:
    """A worker may live a little longer than the daemon."""
    forks = "\npid = os.fork()\nif pid:\n    os._exit(1)\nprint(pid, flush=True)\nsys.stdin.read()\n"
    command = [sys.executable, "-c", MAKES.replace("if sys.stdin.read()", forks + "if sys.stdin.read()")]
    with subprocess.Popen(
        [*command, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        directory = Path(process.stdout.readline().strip())
        process.stdout.readline()
        remove_orphans("kept-", tmp_path)
        assert directory.exists()
        process.communicate("")
    assert directory.exists()
    remove_orphans("kept-", tmp_path)
    assert not directory.exists()


def test_links_files_and_what_is_not_ours_stay(tmp_path: Path) -> None:
    """A neighbour who makes them has nothing removed that is behind them, and stops nobody."""
    outside = tmp_path / "outside"
    (outside / "below").mkdir(parents=True)
    (tmp_path / "kept-link").symlink_to(outside)
    (tmp_path / "kept-file").touch()
    os.mkfifo(tmp_path / "kept-pipe")
    orphan = tmp_path / "kept-orphan"
    orphan.mkdir()
    (orphan / "link").symlink_to(outside)
    if os.geteuid() == 0:
        foreign = tmp_path / "kept-foreign"
        foreign.mkdir()
        os.chown(foreign, NOBODY, NOBODY)
    before = set(tmp_path.iterdir())

    remove_orphans("kept-", tmp_path)

    assert set(tmp_path.iterdir()) == before - {orphan}
    assert (outside / "below").exists()


# Stores a segment, says where its copy is, and loads it after a neighbour had time to replace it.
WORKER = """
import sys
import pyarrow as pa
from endmark.engine.segment_cache import cache_directory
from endmark.state.store import MemoryBlobs, SegmentStore

store = SegmentStore(MemoryBlobs(), cache_directory())
name, _ = store.add(pa.record_batch({"owed": [1]}))
print(cache_directory() / name, flush=True)
sys.stdin.readline()
print(store.load(name).to_pylist())
"""
# Replaces the file as another user, and says what it could do.
NEIGHBOUR = """
import os, sys
from pathlib import Path
import pyarrow as pa
from endmark.state import codec

copy = Path(sys.argv[1])
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    try:
        print(os.listdir(copy.parent))
        print(copy.read_bytes())
        codec.write(pa.record_batch({"owed": [1_000_000]}), copy.with_suffix(".forged"))
        copy.with_suffix(".forged").rename(copy)
        print("replaced")
    except PermissionError:
        pass
"""


def test_a_neighbour_cannot_forge_a_segment() -> None:
    """He knows where it is and has made directories of such names before. He may neither list nor read."""
    with tempfile.TemporaryDirectory() as parent:
        temporary = Path(parent)
        temporary.chmod(0o1777)  # as the system's
        for name in (PREFIX, f"{PREFIX}1", f"{PREFIX}{os.getpid()}-run"):
            (temporary / name).mkdir()
            (temporary / name).chmod(0o777)
            if os.geteuid() == 0:
                os.chown(temporary / name, NOBODY, NOBODY)
        environment = os.environ | {"TMPDIR": parent}
        with subprocess.Popen(
            [sys.executable, "-c", WORKER],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as worker:
            assert worker.stdout is not None
            copy = worker.stdout.readline().strip()
            attack = [sys.executable, "-c", NEIGHBOUR, copy]
            tried = subprocess.run(attack, capture_output=True, text=True, check=True, timeout=60)
            assert stat.S_IMODE(Path(copy).parent.stat().st_mode) == 0o700
            loaded, _ = worker.communicate("\n", timeout=60)
        assert not Path(copy).parent.exists()

    assert tried.stdout == ""
    assert loaded.strip() == "[{'owed': 1}]"
