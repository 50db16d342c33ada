"""README, docs and the unit of systemd say what is true: pipelines, references, links, alerts and options."""

from __future__ import annotations

import ast
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from endmark.cli.app import app
from endmark.pipeline.boundedness import states
from endmark.pipeline.file import load

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def test_the_estimate_of_state_is_that_of_the_plan(tmp_path: Path) -> None:
    text = (ROOT / "docs/state.md").read_text()
    file = tmp_path / "shop.yaml"
    [pipeline_file] = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    file.write_text(pipeline_file)
    [command] = re.findall(r"```sh\nendmark (.*?)```", text, re.DOTALL)
    [lines] = re.findall(r"```text\n(.*?)```", text, re.DOTALL)

    ended = CliRunner().invoke(app, shlex.split(command.replace(file.name, str(file))))

    assert ended.exit_code == 0, ended.output
    assert set(lines.splitlines()) <= set(ended.output.splitlines())


def test_the_readme_has_the_figures_of_the_results() -> None:
    """Its latency was once that of a measurement before the last one."""
    found = _measured()
    half, most = found["latency at 10 % of the highest rate", ""]
    [spark, *_] = found["stream join", "Spark, state on the heap"]
    flink = " to ".join(found["stream join", "Flink, state on the heap"])
    cached = " to ".join(found["lookup, database on the same machine", "Flink with a cache"])
    [whole] = found["whole pipeline", "Spark's own operators"]
    [counting] = found["whole pipeline", "Flink, state on the heap, only counting"]
    readme = " ".join((ROOT / "README.md").read_text().split())

    assert f"{half} s for half of the results, {most} s for 99 of 100" in readme
    assert f"is {flink} times as fast as Flink's and {spark} times as fast as Spark's" in readme
    assert f"is {cached} times as fast as Flink's with a cache" in readme
    assert f"is {whole} times as fast as a pipeline of Spark's own operators" in readme
    assert f"and {counting} times as fast as Flink's" in readme


def _measured() -> dict[tuple[str, str], list[str]]:
    """The figures of the summary of measurements, with one decimal, by what is measured and beside what."""
    table = (ROOT / "docs/bench.md").read_text().partition("<!-- begin summary -->")[2]
    found, of = {}, ""
    for line in table.partition("<!-- end -->")[0].strip().splitlines()[2:]:
        measured, figure, beside, ratio = (cell.strip() for cell in line.strip("|").split("|"))
        of = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", measured) or of
        found[of, beside] = [f"{float(each):.1f}" for each in re.findall(r"\d+\.\d+", ratio or figure)]
    return found


def test_the_runbook_knows_every_alert() -> None:
    groups = yaml.safe_load((ROOT / "infra/alerts.yml").read_text())["groups"]
    alerts = [rule["alert"] for group in groups for rule in group["rules"]]
    named = re.findall(r"^\| (Endmark\w+) \|", (ROOT / "docs/runbook.md").read_text(), re.MULTILINE)
    assert named == alerts


def _column(page: str, heading: str) -> list[str]:
    """Return what is quoted in the first column of the table below a heading."""
    section = (ROOT / "docs" / page).read_text().partition(f"# {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^ *\| `([^`]+)` \|", section, re.MULTILINE)


@pytest.mark.parametrize(
    ("heading", "definitions"),
    [
        ("Dead letters", ("wire-format.md", "Why a record is a dead letter")),
        ("Violations", ("semantics/violations.md", "Violations")),
    ],
)
def test_the_page_of_errors_has_every_reason(heading: str, definitions: tuple[str, str]) -> None:
    assert _column("errors.md", heading) == _column(*definitions)


def test_the_page_of_errors_quotes_messages_as_they_are() -> None:
    files = [*ROOT.glob("jobs/**/*.py"), *ROOT.glob("services/**/*.py")]
    messages = "\n".join(text for file in files for text in _texts(ast.parse(file.read_text())))
    quoted = _column("errors.md", "A job that stops") + _column("errors.md", "A job that does not start")
    unknown = [each for each in quoted if each not in messages]
    assert unknown == ["No space left on device"]  # the operating system words it


def _texts(tree: ast.Module) -> Iterator[str]:
    """Yield the texts of a module, with an ellipsis in place of each value that is filled in."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("page", ["pipeline-fields.md", "metrics.md", "command-options.md"])
def test_a_reference_is_what_the_code_says(page: str) -> None:
    pages = runpy.run_path(str(ROOT / "infra/docs/references.py"))["PAGES"]
    assert (ROOT / "docs" / page).read_text() == pages[page]()


@pytest.mark.parametrize("file", sorted((ROOT / "infra/docs").glob("*.yaml")), ids=lambda file: file.name)
def test_the_examples_of_fields_are_valid(file: Path) -> None:
    given = {"KAFKA_PASSWORD": "secret", "REGISTRY_PASSWORD": "secret"}
    load(file, given | {"ENDMARK_RELATION_URL": "sqlite:///carriers.db"})


def test_all_links_of_the_docs_site_work() -> None:
    built = subprocess.run(
        [sys.executable, "infra/docs/build_site.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    assert (ROOT / "var/docs/site/index.html").exists()


def test_the_unit_of_systemd_runs_a_job() -> None:
    unit = (ROOT / "infra/systemd/endmark@.service").read_text()
    [start] = re.findall(r"ExecStart=\S+/endmark run (.*)", unit)
    known = {option for each in get_command(app).commands["run"].params for option in each.opts}  # type: ignore[attr-defined]
    assert set(re.findall(r"--[a-z-]+", start)) == {"--warehouse", "--checkpoint"} <= known
