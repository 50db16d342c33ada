"""What the README shows of a pipeline is one."""

from __future__ import annotations

import re
from pathlib import Path

from endmark.pipeline.boundedness import states
from endmark.pipeline_file import load

README = (Path(__file__).parents[2] / "README.md").read_text()


def test_the_pipeline_is_valid_and_bounded_as_said(tmp_path: Path) -> None:
    [text] = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    file = tmp_path / "orders.yaml"
    file.write_text(text)

    pipeline = load(file, {"ENDMARK_RELATION_URL": "sqlite:///customers.db"})

    [said] = re.findall(r"```\n(orders rows: .*)\n```", README)
    assert said in [str(state) for state in states(pipeline)]
