"""A container engine of the test's own: started in a directory, gone with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from endmark.embedded.process import ManagedProcess
from endmark.errors import MissingPartError

_START_SECONDS = 60.0
_STOP_SECONDS = 60.0
_TRIES_TO_REMOVE = 20


@contextmanager
def engine() -> Iterator[Path]:
    """Run `dockerd` with everything it keeps below a new directory; yields that directory.

    `DOCKER_HOST` names it meanwhile, so that `docker` and `docker-compose` find no other. Needs root.

    Raises:
        MissingPartError: not root, a program is missing, or the engine does not start.
    """
    if os.geteuid() != 0:
        raise MissingPartError("a container engine needs root; run `make test-compose` as root")
    for program in ("dockerd", "docker", "docker-compose", "debootstrap"):
        if shutil.which(program) is None:
            raise MissingPartError(
                f"`{program}` was not found; run `infra/install-test-system.sh containers`"
            )
    directory = Path(tempfile.mkdtemp(prefix="endmark-containers-"))
    socket = directory / "docker.sock"
    command = ["dockerd", f"--host=unix://{socket}", f"--pidfile={directory / 'dockerd.pid'}"]
    command += [f"--data-root={directory / 'data'}", f"--exec-root={directory / 'exec'}"]
    before = {name: os.environ.get(name) for name in ("DOCKER_HOST", "COMPOSE_DOCKER_CLI_BUILD")}
    try:
        with ManagedProcess(
            "dockerd", command, directory / "dockerd.log", stop_seconds=_STOP_SECONDS
        ) as daemon:
            # Building by the engine's own interface needs no plug-in of the docker command.
            os.environ.update(DOCKER_HOST=f"unix://{socket}", COMPOSE_DOCKER_CLI_BUILD="0")
            daemon.wait_ready(_answers, _START_SECONDS)
            yield directory
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        _remove(directory)


def _answers() -> bool:
    return subprocess.run(["docker", "version"], capture_output=True, check=False).returncode == 0


def _remove(directory: Path) -> None:
    # What the engine has mounted goes first, the innermost before what holds it.
    for _ in range(_TRIES_TO_REMOVE):
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mounted in sorted((name for name in mounts if name.startswith(f"{directory}/")), reverse=True):
            subprocess.run(["umount", mounted], capture_output=True, check=False)
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
        time.sleep(0.5)
    raise RuntimeError(f"{directory} cannot be removed; see what is mounted below it in /proc/mounts")
