"""The pipelines in README and docs are valid, and the runbook knows every alert."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from endmark.pipeline.boundedness import states
from endmark.pipeline.file import load

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["README.md", "docs/pipeline-file.md"])
def test_a_page_has_a_valid_pipeline_and_its_bound(page: str, tmp_path: Path) -> None:
    text = (ROOT / page).read_text()
    [pipeline_file] = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    file = tmp_path / "orders.yaml"
    file.write_text(pipeline_file)

    pipeline = load(file, {"ENDMARK_RELATION_URL": "sqlite:///customers.db"})

    [bound] = re.findall(r"```\n(orders rows: .*)\n```", text)
    assert bound in [str(state) for state in states(pipeline)]


def test_the_runbook_knows_every_alert() -> None:
    groups = yaml.safe_load((ROOT / "infra/alerts.yml").read_text())["groups"]
    alerts = [rule["alert"] for group in groups for rule in group["rules"]]
    named = re.findall(r"^\| (Endmark\w+) \|", (ROOT / "docs/runbook.md").read_text(), re.MULTILINE)
    assert named == alerts
