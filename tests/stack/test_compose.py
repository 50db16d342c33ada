"""The rules of docker-compose.yml, which need no container engine.

The stack in real containers is tests/containers."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from sqlalchemy import make_url

from endmark.cli.app import app
from endmark.metrics import CATALOGUE
from endmark_ops.answers.exporter import HISTOGRAMS
from endmark_ops.http.access import parse_tokens

ROOT = Path(__file__).parents[2]
GRAFANA = ROOT / "infra/grafana"
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
BUILT = sorted({service["build"]["dockerfile"] for service in SERVICES.values() if "build" in service})


def copied(dockerfile: str) -> list[str]:
    """Return the sources that a Dockerfile copies from the build context."""
    lines = re.findall(r"^COPY (?!--from)(.+)$", (ROOT / dockerfile).read_text(), re.MULTILINE)
    return [source for line in lines for source in line.split()[:-1]]


def test_compose_accepts_the_file() -> None:
    command = ["docker-compose", "--file", str(ROOT / "docker-compose.yml"), "config", "--quiet"]
    subprocess.run(command, check=True, timeout=60)


def test_services() -> None:
    always = {"broker", "init", "mysql", "spark-master", "spark-worker", "job", "ops"}
    on_demand = {"demo": {"feed"}, "verify": {"verify"}, "monitoring": {"prometheus", "grafana"}}
    assert set(SERVICES) == always.union(*on_demand.values())
    for profile, names in on_demand.items():
        assert {name for name in SERVICES if SERVICES[name].get("profiles") == [profile]} == names
    assert "COMPOSE_PROFILES=demo\n" in (ROOT / ".env").read_text()


@pytest.mark.parametrize("name", SERVICES)
def test_no_service_takes_all_of_the_machine(name: str) -> None:
    assert {"mem_limit", "pids_limit"} <= set(SERVICES[name])
    assert {"max-size", "max-file"} <= set(SERVICES[name].get("logging", {}).get("options", {}))


@pytest.mark.parametrize("name", SERVICES)
def test_no_service_has_rights_it_does_not_need(name: str) -> None:
    """The database starts as its own user, since as root it would need capabilities to become that one."""
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    # The broker's image writes its settings below /opt; Spark keeps state and spilled rows in /tmp.
    assert service.get("read_only", False) is (name in {"mysql", "ops", "prometheus", "grafana"})
    assert SERVICES["mysql"]["user"] == "mysql"


def test_services_reach_those_they_need_and_no_others() -> None:
    cluster = {"broker", "mysql", "job", "spark-master", "spark-worker"}
    reached = {
        name: {other for other in SERVICES if set(networks(name)) & set(networks(other))} - {name}
        for name in SERVICES
    }
    assert reached == {
        **{name: cluster - {name} for name in ("job", "spark-master", "spark-worker")},
        "broker": (cluster | {"feed", "init", "verify", "ops"}) - {"broker"},
        "init": {"broker"},
        "mysql": (cluster | {"feed", "verify"}) - {"mysql"},
        "feed": {"broker", "mysql", "verify"},
        "verify": {"broker", "mysql", "feed"},
        "ops": {"broker", "prometheus"},
        "prometheus": {"ops", "grafana"},
        "grafana": {"prometheus"},
    }
    # Spark finds its own parts by names, and one with several addresses would listen at one of them.
    assert all(len(networks(name)) == 1 for name in ("job", "spark-master", "spark-worker"))
    assert COMPOSE["networks"]["clients"] == {"internal": True}


def networks(name: str) -> list[str]:
    found: list[str] = SERVICES[name]["networks"]
    assert set(found) <= set(COMPOSE["networks"])
    return found


def images() -> dict[str, str]:
    """The images of others, by the variable that names each in `.env`."""
    lines = (ROOT / ".env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if re.match(r"\w+_IMAGE=", line))


def test_images_of_others_are_named_in_one_file() -> None:
    """There their digests stand, once `infra/pin-images.sh` has asked their registry for these."""
    assert set(images()) == {
        f"{name}_IMAGE" for name in ("PYTHON", "KAFKA", "MYSQL", "PROMETHEUS", "GRAFANA")
    }
    for image in images().values():
        assert re.fullmatch(r"[a-z/]+:[\w.-]*\d[\w.-]*(@sha256:[0-9a-f]{64})?", image)
    for service in SERVICES.values():
        if "build" in service:
            assert service["build"]["args"]["BASE"] == "${PYTHON_IMAGE:?}"
        else:
            variable = re.fullmatch(r"\$\{(\w+):\?\}", service["image"])
            assert variable is not None
            assert variable[1] in images()
    for dockerfile in BUILT:
        assert f"ARG BASE={images()['PYTHON_IMAGE'].partition('@')[0]}\n" in (ROOT / dockerfile).read_text()


def test_images_of_others_are_pinned_by_what_their_registry_says(tmp_path: Path) -> None:
    """A program stands in for `docker`, which no test can ask for images of a registry."""
    (tmp_path / "infra").mkdir()
    script = shutil.copy(ROOT / "infra/pin-images.sh", tmp_path / "infra")
    (tmp_path / ".env").write_text(f"# Kept.\nPROFILES=x\nA_IMAGE=a/b:1.0\nB_IMAGE=c:2@sha256:{'0' * 64}\n")
    docker = tmp_path / "docker"
    docker.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        "    'pull --quiet a/b:1.0' | 'pull --quiet c:2') ;;\n"
        f"    *'inspect '*' a/b:1.0') echo a/b@sha256:{'1' * 64} ;;\n"
        f"    *'inspect '*' c:2') echo c@sha256:{'2' * 64} ;;\n"
        "    *) exit 1 ;;\n"
        "esac\n"
    )
    docker.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run([script], check=True, env=environment)
    assert (tmp_path / ".env").read_text() == (
        f"# Kept.\nPROFILES=x\nA_IMAGE=a/b:1.0@sha256:{'1' * 64}\nB_IMAGE=c:2@sha256:{'2' * 64}\n"
    )
    docker.write_text("#!/bin/sh\necho nothing\n")
    before = (tmp_path / ".env").read_text()
    assert subprocess.run([script], check=False, env=environment).returncode != 0
    assert (tmp_path / ".env").read_text() == before


@pytest.mark.parametrize("dockerfile", BUILT)
def test_images_install_nothing_from_elsewhere_without_its_hash(dockerfile: str) -> None:
    """Not even what builds packages: uv, hatchling for ours, setuptools for pyspark's source archive."""
    content = (ROOT / dockerfile).read_text()
    for line in re.findall(r"^.*\bpip install\b.*", re.sub(r"\\\n\s+", "", content), re.MULTILINE):
        if "uv pip install" in line:
            assert "--constraints requirements.lock --build-constraints requirements.lock" in line
        else:
            assert "pip install --no-cache-dir --require-hashes -r" in line
    lock = (ROOT / "requirements.lock").read_text()
    for name in ("uv", "hatchling", "packaging", "pathspec", "pluggy", "trove-classifiers", "setuptools"):
        assert re.search(rf"^{name}==\S+ \\\n    --hash=sha256:", lock, re.MULTILINE), name


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
        if str(value).startswith("/run/secrets"):
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
        else:
            assert how["condition"] == "service_completed_successfully"
            assert "restart" not in SERVICES[target]


@pytest.mark.parametrize("name", sorted(set(SERVICES) - {"feed", "init", "verify"}))
def test_what_runs_for_good_is_checked_and_restarted(name: str) -> None:
    assert "healthcheck" in SERVICES[name]
    assert SERVICES[name]["restart"] == "unless-stopped"


def test_the_three_volumes_of_the_job() -> None:
    def mounts(name: str) -> set[str]:
        return {volume for volume in SERVICES[name]["volumes"] if not volume.startswith(".")}

    # Executors write tables and state at the very paths that the driver names.
    assert mounts("spark-worker") < mounts("job")
    assert mounts("ops") == {"ops:/data/ops", "warehouse:/data/warehouse:ro"}
    named = {
        volume.partition(":")[0]
        for name in SERVICES
        if "volumes" in SERVICES[name]
        for volume in mounts(name)
    }
    assert named == set(COMPOSE["volumes"])


def test_each_part_logs_in_as_its_own_user() -> None:
    """Nobody but `init` has the certificate that may do everything."""
    logins = {
        name: {secret for secret in service.get("secrets", []) if secret.startswith("kafka_")} - {"kafka_ca"}
        for name, service in SERVICES.items()
    }
    assert {name: found for name, found in logins.items() if found} == {
        "broker": {"kafka_broker"},
        "init": {"kafka_admin", "kafka_feed", "kafka_job", "kafka_operator"},
        "feed": {"kafka_feed"},
        "job": {"kafka_job"},
        "verify": {"kafka_job"},
        "ops": {"kafka_operator"},
    }


@pytest.mark.parametrize("name", ["job", "feed", "ops", "verify"])
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
    assert make() == first
    assert set(first) == {Path(secret["file"]).name for secret in COMPOSE["secrets"].values()}
    assert len(set(first.values())) == len(first)
    # Fit for a URL and an SQL string as they are.
    [token] = parse_tokens(first.pop("ops_tokens.txt"), "here")
    assert (token.name, token.may_write) == ("operator", True)
    certificates = {name: first.pop(name) for name in list(first) if name.endswith(".pem")}
    assert all(re.fullmatch("[0-9a-f]{48}", value) for value in first.values())
    assert {name for name, text in certificates.items() if "PRIVATE KEY" in text} == {
        "kafka_broker.pem",
        "kafka_admin.pem",
    }
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700


@pytest.mark.parametrize("name", COMPOSE["secrets"])
def test_secrets_are_never_committed(name: str) -> None:
    command = ["git", "check-ignore", "--quiet", COMPOSE["secrets"][name]["file"]]
    subprocess.run(command, cwd=ROOT, check=True)


def test_prometheus_asks_the_sidecar_by_a_name_it_answers_to() -> None:
    config = yaml.safe_load((ROOT / "infra/prometheus.yml").read_text())
    [asked] = config["scrape_configs"][0]["static_configs"][0]["targets"]
    name, _, port = asked.partition(":")
    assert f"--port {port} --known-as {name}" in SERVICES[name]["command"]


def test_grafana_shows_metrics_that_there_are() -> None:
    [source] = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yml").read_text())[
        "datasources"
    ]
    assert source["url"] == f"http://prometheus:{SERVICES['prometheus']['ports'][0].rpartition(':')[2]}"
    boards = [json.loads(each.read_text()) for each in sorted((GRAFANA / "dashboards").glob("*.json"))]
    assert [board["uid"] for board in boards] == ["endmark", "endmark-pipelines"]
    [of_one, of_all] = boards
    exprs = [target["expr"] for panel in of_one["panels"] for target in panel["targets"]]
    assert all(each.count("endmark_") == each.count('{pipeline="$pipeline"}') for each in exprs)
    assert f"/d/{of_one['uid']}?" in json.dumps(of_all)
    assert f'"/d/{of_all["uid"]}"' in json.dumps(of_one)
    panels = [panel for board in boards for panel in board["panels"]]
    assert {panel["datasource"]["uid"] for panel in panels} == {source["uid"]}
    asked = " ".join(target["expr"] for panel in panels for target in panel["targets"])
    names = set(re.findall(r"\bendmark_(\w+)", asked))
    of_the_sidecar = {"last_batch_age_seconds", "lag_records", "run_up"}
    histograms = {f"{name}_bucket".removeprefix("endmark_") for name in HISTOGRAMS}
    assert names - of_the_sidecar <= set(CATALOGUE) | histograms
    assert histograms <= names
