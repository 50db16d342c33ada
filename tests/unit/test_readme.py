"""What the README shows of a pipeline is one; what the runbook says of alerts is all of them."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from endmark.pipeline.boundedness import states
from endmark.pipeline.file import load

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_pipeline_is_valid_and_bounded_as_said(tmp_path: Path) -> None:
    [text] = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    file = tmp_path / "orders.yaml"
    file.write_text(text)

    pipeline = load(file, {"ENDMARK_RELATION_URL": "sqlite:///customers.db"})

    [said] = re.findall(r"```\n(orders rows: .*)\n```", README)
    assert said in [str(state) for state in states(pipeline)]


def test_the_runbook_knows_every_alert() -> None:
    groups = yaml.safe_load((ROOT / "infra/alerts.yml").read_text())["groups"]
    alerts = [rule["alert"] for group in groups for rule in group["rules"]]
    named = re.findall(r"^\| (Endmark\w+) \|", (ROOT / "docs/runbook.md").read_text(), re.MULTILINE)
    assert named == alerts
