"""What runs inside the containers of docker-compose.yml, run without a container engine."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from sqlalchemy import create_engine, inspect, make_url, text
from sqlalchemy.exc import OperationalError

from endmark.databases import database_url
from endmark.embedded.mariadb import MariaDb
from endmark.embedded.ports import free_port as find_free_port
from endmark.embedded.ports import listens
from endmark.embedded.process import ManagedProcess
from endmark_feed.relation import sellers_table
from support.mysql import MySql

ROOT = Path(__file__).parents[2]
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]


def inside(name: str, tmp_path: Path) -> dict[str, str]:
    """The environment of a service, with every secret at home in `tmp_path`."""
    (tmp_path / "secret").write_text("abc123\n")
    environment = dict(SERVICES[name]["environment"])
    environment |= dict.fromkeys(
        (variable for variable in environment if variable.endswith("_FILE")), str(tmp_path / "secret")
    )
    conf = str(ROOT / "infra/images")
    return {**os.environ, **environment, "HOME": str(tmp_path), "SPARK_CONF_DIR": conf}


def told(name: str, tmp_path: Path, variable: str) -> str:
    """Return the value that the entrypoint gives an environment variable of a service."""
    command = [str(ROOT / "infra/images/entrypoint.sh"), "printenv", variable]
    environment = inside(name, tmp_path)
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("name", ["job", "feed", "verify"])
def test_the_entrypoint_completes_the_relations_url(name: str, tmp_path: Path) -> None:
    shown = told(name, tmp_path, "ENDMARK_RELATION_URL")
    user, _, rest = SERVICES[name]["environment"]["ENDMARK_RELATION_URL"].partition("@")
    assert shown == f"{user}:abc123@{rest}"


def test_the_entrypoint_spells_a_password_for_a_url(tmp_path: Path) -> None:
    spelled = "p@ss:w/o?r#d%41 'x'"
    environment = inside("job", tmp_path)
    Path(environment["ENDMARK_RELATION_PASSWORD_FILE"]).write_text(f"{spelled}\n")
    command = [str(ROOT / "infra/images/entrypoint.sh"), "printenv", "ENDMARK_RELATION_URL"]
    shown = subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()
    found = database_url(shown, "the relation's URL")
    assert (found.password, found.host, found.database) == (spelled, "mysql", "warehouse")


@pytest.mark.parametrize("name", ["spark-master", "spark-worker", "job"])
def test_the_cluster_shares_a_secret_that_its_user_alone_can_read(name: str, tmp_path: Path) -> None:
    settings = Path(told(name, tmp_path, "SPARK_CONF_DIR"), "spark-defaults.conf")
    written = dict(line.split(maxsplit=1) for line in settings.read_text().splitlines() if line[:1] != "#")
    assert written["spark.authenticate"] == "true"
    assert written["spark.authenticate.secret"] == "abc123"
    assert written["spark.network.crypto.enabled"] == "true"
    assert written["spark.master.rest.enabled"] == "false"
    assert stat.S_IMODE(settings.parent.stat().st_mode) == 0o700


def test_an_image_lists_its_python_packages_and_jars(tmp_path: Path) -> None:
    for name, properties in {
        "called-1.0": ["called", "packed-in"],
        "by-file_2.13-2.8.0": [],
        "unversioned": [],
    }.items():
        with zipfile.ZipFile(tmp_path / f"{name}.jar", "w") as jar:
            for artifact in properties:
                text = f"#Maven\nversion=1.0\ngroupId=org.example\nartifactId={artifact}\n"
                jar.writestr(f"META-INF/maven/org.example/{artifact}/pom.properties", text)
    command = [sys.executable, str(ROOT / "infra/images/sbom.py"), str(tmp_path)]
    bill = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")

    components = bill["components"]
    jars = {component["name"]: component for component in components if "hashes" in component}
    digest = hashlib.sha256((tmp_path / "called-1.0.jar").read_bytes()).hexdigest()
    assert jars["called"]["purl"] == "pkg:maven/org.example/called@1.0"
    assert jars["called"]["hashes"] == [{"alg": "SHA-256", "content": digest}]
    assert jars["by-file_2.13"]["version"] == "2.8.0"
    assert set(jars) == {"called", "by-file_2.13", "unversioned"}
    spark = f"pkg:pypi/pyspark@{version('pyspark')}"
    assert spark in {component.get("purl") for component in components}
    assert len({component["bom-ref"] for component in components}) == len(components)


def test_the_entrypoint_leaves_other_commands_alone() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ENDMARK")}
    command = [str(ROOT / "infra/images/entrypoint.sh"), "sh", "-c", "exit 7"]
    assert subprocess.run(command, env=environment, check=False).returncode == 7


def started(words: list[str], tmp_path: Path, **environment: str) -> list[str]:
    """The program that the entrypoint starts, and its words."""
    for program in ("spark-submit", "java"):
        (tmp_path / program).write_text('#!/bin/sh\nprintf "%s\\n" "${0##*/}" "$@"\n')
        (tmp_path / program).chmod(0o755)
    done = subprocess.run(
        [str(ROOT / "infra/images/entrypoint.sh"), *words],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", **environment},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.splitlines()


def test_the_entrypoint_is_driver_and_executor_of_spark_on_kubernetes(tmp_path: Path) -> None:
    """By the words and variables that Spark gives its pods."""
    words = [
        "driver",
        "--properties-file",
        "/opt/spark/conf/spark.properties",
        "local:///opt/endmark/pipeline.py",
    ]
    assert started(words, tmp_path, SPARK_DRIVER_BIND_ADDRESS="10.1.2.3") == [
        "spark-submit",
        "--deploy-mode",
        "client",
        "--conf",
        "spark.driver.bindAddress=10.1.2.3",
        *words[1:],
    ]
    told = {"DRIVER_URL": "spark://d:1", "EXECUTOR_ID": "4", "EXECUTOR_CORES": "2", "APPLICATION_ID": "a"}
    told |= {"EXECUTOR_POD_IP": "10.1.2.4", "RESOURCE_PROFILE_ID": "0", "EXECUTOR_POD_NAME": "p"}
    told |= {"EXECUTOR_MEMORY": "2g", "HOME": "/opt/spark", "JAVA_OPT_0": "-Da=b c", "JAVA_OPT_1": "-Dd='$e'"}
    said = started(["executor"], tmp_path, **{f"SPARK_{name}": value for name, value in told.items()})
    assert said[:7] == ["java", "-Da=b c", "-Dd='$e'", "-Xms2g", "-Xmx2g", "-cp", ":/opt/spark/jars/*"]
    options = said[8:]
    assert dict(zip(options[::2], options[1::2], strict=True)) == {
        "--driver-url": "spark://d:1",
        "--executor-id": "4",
        "--cores": "2",
        "--app-id": "a",
        "--hostname": "10.1.2.4",
        "--resourceProfileId": "0",
        "--podName": "p",
    }


@pytest.mark.parametrize("kind", [MariaDb, MySql])
def test_the_database_starts_with_the_feeds_table_and_two_limited_users(
    kind: type[MariaDb], tmp_path: Path
) -> None:
    with kind(tmp_path / "db") as database:
        socket = tmp_path / "db" / "tables" / "server.sock"
        (tmp_path / "pw").write_text("abc123")
        files = {f"MYSQL_{who}_PASSWORD_FILE": str(tmp_path / "pw") for who in ("JOB", "LOADER")}
        # Stands in for the function of that name in the image's entrypoint.
        client = f"docker_process_sql() {{ mariadb --no-defaults --user=root --socket={socket} warehouse; }}"
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
        columns = inspect(engine).get_columns("sellers")
        engine.dispose()
        # MySQL adds the collation to a type, which is the table's.
        found = {c["name"]: str(c["type"].as_generic()).partition(" COLLATE")[0] for c in columns}
        assert found == {c.name: str(c.type.as_generic()) for c in sellers_table.columns}


def test_the_spark_cluster_starts_without_doors(tmp_path: Path) -> None:
    ports = {port: find_free_port() for port in ("7077", "7078", "8080", "8081")}

    for secret in ("ours", "another"):
        (tmp_path / secret).write_text(secret)

    def started(name: str, knows: str = "ours") -> ManagedProcess:
        command = SERVICES[name]["command"].replace("/tmp/spark-work", str(tmp_path / "work"))  # noqa: S108
        command = re.sub(r"(?<=[ /])spark-master\b", "127.0.0.1", command)
        for port, free in ports.items():
            command = re.sub(rf"\b{port}\b", str(free), command)
        words = [str(Path(sys.executable).parent / "spark-class"), *command.split()[1:]]
        environment = [
            f"HOME={tmp_path}",
            f"SPARK_AUTHENTICATE_SECRET_FILE={tmp_path / knows}",
            f"SPARK_CONF_DIR={ROOT / 'infra/images'}",
            f"PYSPARK_PYTHON={sys.executable}",
            "SPARK_LOCAL_IP=127.0.0.1",
            str(ROOT / "infra/images/entrypoint.sh"),
        ]
        return ManagedProcess(name, ["env", *environment, *words], tmp_path / f"{name}.log")

    def state(port: int) -> dict[str, Any]:
        # The web server listens before its pages are there; until then it answers 404.
        answer = httpx.get(f"http://127.0.0.1:{port}/json/", timeout=30)
        return dict(answer.json()) if answer.status_code == httpx.codes.OK else {}

    with started("spark-master") as master:
        master.wait_ready(lambda: listens(ports["8080"]) and listens(ports["7077"]), 60)
        with started("spark-worker", "another") as stranger:
            stranger.wait_ready(lambda: "Failed to connect to master" in stranger.log.read_text(), 60)
            assert state(ports["8080"])["workers"] == []
        with started("spark-worker") as worker:
            worker.wait_ready(lambda: state(ports["8080"]).get("aliveworkers") == 1, 60)
            assert listens(ports["7078"])
            assert state(ports["8080"])["cores"] == 1
        assert httpx.post(f"http://127.0.0.1:{ports['8080']}/app/kill/").status_code == 405
        assert "StandaloneRestServer" not in master.log.read_text()
