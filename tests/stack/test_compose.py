"""No container engine is needed: the file's rules are checked, and what runs inside is run without one."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer
import yaml
from sqlalchemy import create_engine, inspect, make_url, text
from sqlalchemy.exc import OperationalError

from endmark.cli import app
from endmark.parts.mariadb import MariaDb
from endmark.parts.ports import free_port as find_free_port
from endmark.parts.ports import listens
from endmark.parts.process import ManagedProcess
from endmark_feed.relation import sellers_table

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
BUILT = sorted({service["build"]["dockerfile"] for service in SERVICES.values() if "build" in service})


def copied(dockerfile: str) -> list[str]:
    """What a Dockerfile takes from the build context."""
    lines = re.findall(r"^COPY (?!--from)(.+)$", (ROOT / dockerfile).read_text(), re.MULTILINE)
    return [source for line in lines for source in line.split()[:-1]]


def test_compose_accepts_the_file() -> None:
    command = ["docker-compose", "--file", str(ROOT / "docker-compose.yml"), "config", "--quiet"]
    subprocess.run(command, check=True, timeout=60)


def test_services() -> None:
    assert set(SERVICES) == {"broker", "mysql", "spark-master", "spark-worker", "job", "feed", "ops"}


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_published_on_loopback_only(name: str) -> None:
    for port in SERVICES[name].get("ports", []):
        assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port)


@pytest.mark.parametrize("name", SERVICES)
def test_passwords_come_by_file(name: str) -> None:
    service = SERVICES[name]
    environment = service.get("environment", {})
    for variable, value in environment.items():
        if "PASSWORD" in variable:
            assert variable.endswith("_FILE")
            assert Path(value).parent == Path("/run/secrets")
            assert Path(value).name in service["secrets"]
        if variable.endswith("_URL"):
            assert make_url(value).password is None
    assert set(service.get("secrets", [])) <= set(COMPOSE["secrets"])


@pytest.mark.parametrize("name", SERVICES)
def test_whoever_is_waited_for_says_when_it_is_ready(name: str) -> None:
    for target, how in SERVICES[name].get("depends_on", {}).items():
        if how["condition"] == "service_healthy":
            assert SERVICES[target]["healthcheck"]["test"][0] == "CMD"


@pytest.mark.parametrize("name", sorted(set(SERVICES) - {"feed"}))
def test_what_runs_for_good_is_checked_and_restarted(name: str) -> None:
    assert "healthcheck" in SERVICES[name]
    assert SERVICES[name]["restart"] == "unless-stopped"


def test_the_three_volumes_of_the_job() -> None:
    def mounts(name: str) -> set[str]:
        return {volume for volume in SERVICES[name]["volumes"] if not volume.startswith(".")}

    # Executors write tables and state at the very paths that the driver names.
    assert mounts("spark-worker") < mounts("job")
    assert mounts("ops") == mounts("job") - mounts("spark-worker")
    named = {
        volume.partition(":")[0]
        for name in SERVICES
        if "volumes" in SERVICES[name]
        for volume in mounts(name)
    }
    assert named == set(COMPOSE["volumes"])


@pytest.mark.parametrize("name", ["job", "feed", "ops"])
def test_commands_are_spelled_as_the_command_line_knows_them(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = SERVICES[name].get("environment", {})
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    words = SERVICES[name]["command"].removeprefix("endmark ").split()
    command = typer.main.get_group(app).commands[words[0]]
    options = command.make_context(words[0], words[1:]).params
    if name == "feed":
        assert options["relation_url"] == environment["ENDMARK_RELATION_URL"]


@pytest.mark.parametrize("dockerfile", BUILT)
def test_images_are_built_of_files_that_are_there_and_sent(dockerfile: str) -> None:
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied(dockerfile)
    for source in copied(dockerfile):
        assert (ROOT / source).exists(), source
        assert any(Path(source).is_relative_to(kept) for kept in sent), source


@pytest.mark.parametrize("dockerfile", BUILT)
def test_images_run_as_one_user_who_is_not_root(dockerfile: str) -> None:
    content = (ROOT / dockerfile).read_text()
    assert "useradd --uid 10001 --create-home endmark" in content
    assert content.rindex("\nUSER endmark\n") > content.rindex("\nRUN ")
    # The volumes that a service mounts must belong to that user from the start.
    mounted = [
        volume.split(":")[1]
        for service in SERVICES.values()
        if service.get("build", {}).get("dockerfile") == dockerfile
        for volume in service.get("volumes", [])
        if not volume.startswith(".")
    ]
    made = re.search(r"install --directory --owner=endmark --group=endmark (.+)", content)
    assert made is not None
    assert set(mounted) == set(made[1].split())


def test_the_sidecar_has_no_spark() -> None:
    content = (ROOT / "infra/images/ops.Dockerfile").read_text()
    assert "jre" not in content
    assert '".[ops]"' in content


def test_bind_mounts_are_there() -> None:
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            if volume.startswith("."):
                assert (ROOT / volume.partition(":")[0]).exists()


def test_secrets_are_random_kept_and_out_of_others_reach(tmp_path: Path) -> None:
    script = shutil.copy(ROOT / "infra/make-secrets.sh", tmp_path)
    (tmp_path / "secrets").mkdir()

    def make() -> dict[str, str]:
        subprocess.run([script], check=True)
        return {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()}

    first = make()
    assert set(first) == {Path(secret["file"]).name for secret in COMPOSE["secrets"].values()}
    assert len(set(first.values())) == len(first)
    # Fit for a URL and an SQL string as they are.
    assert all(re.fullmatch("[0-9a-f]{48}", value) for value in first.values())
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700
    assert make() == first


@pytest.mark.parametrize("name", COMPOSE["secrets"])
def test_secrets_are_never_committed(name: str) -> None:
    command = ["git", "check-ignore", "--quiet", COMPOSE["secrets"][name]["file"]]
    subprocess.run(command, cwd=ROOT, check=True)


@pytest.mark.parametrize("name", ["job", "feed"])
def test_the_entrypoint_completes_the_relations_url(name: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("abc123\n")
    environment = SERVICES[name]["environment"] | {"ENDMARK_RELATION_PASSWORD_FILE": str(tmp_path / "secret")}
    command = [str(ROOT / "infra/images/entrypoint.sh"), "printenv", "ENDMARK_RELATION_URL"]
    shown = subprocess.run(
        command, env={**os.environ, **environment}, check=True, capture_output=True, text=True
    ).stdout.strip()
    user, _, rest = SERVICES[name]["environment"]["ENDMARK_RELATION_URL"].partition("@")
    assert shown == f"{user}:abc123@{rest}"


def test_the_entrypoint_leaves_other_commands_alone() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ENDMARK")}
    command = [str(ROOT / "infra/images/entrypoint.sh"), "sh", "-c", "exit 7"]
    assert subprocess.run(command, env=environment, check=False).returncode == 7


def test_the_database_starts_with_the_feeds_table_and_two_limited_users(tmp_path: Path) -> None:
    with MariaDb(tmp_path / "db") as database:
        socket = tmp_path / "db" / "tables" / "server.sock"
        (tmp_path / "pw").write_text("abc123")
        files = {f"MYSQL_{who}_PASSWORD_FILE": str(tmp_path / "pw") for who in ("JOB", "LOADER")}
        # Stands in for the function of that name in the image's entrypoint.
        client = f"docker_process_sql() {{ mariadb --no-defaults --socket={socket} warehouse; }}"
        scripts = f"{client}\ndocker_process_sql < init.sql\n. ./users.sh"
        subprocess.run(
            ["bash", "-euc", scripts], cwd=ROOT / "infra/mysql", env={**os.environ, **files}, check=True
        )

        def execute(user: str, statement: str) -> int | None:
            url = make_url(database.url).set(username=user, password="abc123")  # noqa: S106
            engine = create_engine(url)
            with engine.begin() as connection:
                done = connection.execute(text(statement))
            engine.dispose()
            return done.rowcount

        insert = "INSERT INTO sellers VALUES (1, 'Björn', 'NO', 4.5)"
        assert execute("endmark_loader", insert) == 1
        assert execute("endmark_job", "SELECT * FROM sellers") == 1
        with pytest.raises(OperationalError, match="denied"):
            execute("endmark_job", insert)
        with pytest.raises(OperationalError, match="denied"):
            execute("endmark_loader", "DROP TABLE sellers")

        engine = create_engine(database.url)
        found = {c["name"]: str(c["type"].as_generic()) for c in inspect(engine).get_columns("sellers")}
        engine.dispose()
        assert found == {c.name: str(c.type.as_generic()) for c in sellers_table.columns}


def test_the_spark_cluster_starts_without_doors(tmp_path: Path) -> None:
    ports = {port: find_free_port() for port in ("7077", "7078", "8080", "8081")}

    def started(name: str) -> ManagedProcess:
        command = SERVICES[name]["command"].replace("/tmp/spark-work", str(tmp_path / "work"))  # noqa: S108
        for host in ("spark-master", "spark-worker"):
            command = re.sub(rf"(?<=[ /]){host}\b", "127.0.0.1", command)
        for port, free in ports.items():
            command = re.sub(rf"\b{port}\b", str(free), command)
        words = [str(Path(sys.executable).parent / "spark-class"), *command.split()[1:]]
        environment = [
            f"SPARK_CONF_DIR={ROOT / 'infra/images'}",
            f"PYSPARK_PYTHON={sys.executable}",
            "SPARK_LOCAL_IP=127.0.0.1",
        ]
        return ManagedProcess(name, ["env", *environment, *words], tmp_path / f"{name}.log")

    def state(port: int) -> dict[str, Any]:
        # The web server listens before its pages are there; until then it answers 404.
        answer = httpx.get(f"http://127.0.0.1:{port}/json/", timeout=30)
        return dict(answer.json()) if answer.status_code == httpx.codes.OK else {}

    with started("spark-master") as master:
        master.wait_ready(lambda: listens(ports["8080"]) and listens(ports["7077"]), 60)
        with started("spark-worker") as worker:
            worker.wait_ready(lambda: state(ports["8080"]).get("aliveworkers") == 1, 60)
            assert listens(ports["7078"])
            assert state(ports["8080"])["cores"] == 2
        assert httpx.post(f"http://127.0.0.1:{ports['8080']}/app/kill/").status_code == 405
        assert "StandaloneRestServer" not in master.log.read_text()
