"""The alerts of `infra/alerts.yml`: Prometheus takes them, and they fire when they should."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import yaml

from endmark.metrics import CATALOGUE

ROOT = Path(__file__).parents[2]
RULES = yaml.safe_load((ROOT / "infra/alerts.yml").read_text())["groups"][0]["rules"]
# The sidecar's own; `_totals` names the others.
OF_THE_RUN = {"run_up", "last_batch_age_seconds"}


def promtool(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *arguments], cwd=cwd, capture_output=True, text=True, check=False)


def test_they_fire_when_they_should(tmp_path: Path) -> None:
    """`tests/stack/alerts.yaml` says when."""
    for file in ("infra/alerts.yml", "tests/stack/alerts.yaml"):
        shutil.copy(ROOT / file, tmp_path)
    done = promtool("test", "rules", "alerts.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_has_a_test() -> None:
    tested = (ROOT / "tests/stack/alerts.yaml").read_text()
    assert [rule["alert"] for rule in RULES if rule["alert"] not in tested] == []


def test_prometheus_takes_its_configuration() -> None:
    """Compose puts both files into one directory."""
    done = promtool("check", "config", "prometheus.yml", cwd=ROOT / "infra")
    assert done.returncode == 0, done.stdout + done.stderr
    volumes = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["prometheus"]["volumes"]
    assert "./infra/alerts.yml:/etc/prometheus/alerts.yml:ro" in volumes


def test_they_are_about_metrics_that_there_are() -> None:
    named = {name for rule in RULES for name in re.findall(r"endmark_(\w+)", rule["expr"])}
    assert named <= CATALOGUE.keys() | OF_THE_RUN
    assert all(rule["annotations"].keys() == {"summary", "action"} for rule in RULES)
