"""The tutorial of docs/first-pipeline.md: its commands, on a broker, a database and a job of their own."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

from deltalake import DeltaTable

from endmark.embedded.process import ManagedProcess

PAGE = Path(__file__).parents[2] / "docs" / "first-pipeline.md"
BROKER = "endmark broker\n"


def test_the_tutorial_ends_with_rows_in_delta(tmp_path: Path, jars: list[Path], free_port: int) -> None:
    """Each order is there with its payment and its customer, if it has one."""
    assert jars
    blocks = re.findall(r"^```(sh|python)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    [program] = [text for kind, text in blocks if kind == "python"]
    first, *commands = [text for kind, text in blocks if kind == "sh"]
    assert first == BROKER
    address = f"localhost:{free_port}"
    (tmp_path / "shop.py").write_text(program.replace("localhost:9092", address))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ENDMARK_")}
    environment |= {name: value for name, value in os.environ.items() if name == "ENDMARK_HOME"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    environment["ENDMARK_BOOTSTRAP"] = address

    path = f"export PATH={shlex.quote(environment['PATH'])}"
    start = ["bash", "-c", f"cd {tmp_path} && {path} && exec {first.strip()} --port {free_port}"]
    with ManagedProcess("broker", start, tmp_path / "broker.log", stop_seconds=60) as broker:
        broker.wait_ready(lambda: f"{address}\n" in broker.log.read_text(), 120)
        said = [run(command, tmp_path, environment) for command in commands]
        rows = DeltaTable(tmp_path / "var" / "shop" / "warehouse" / "results").to_pyarrow_table().to_pylist()
        kept = tmp_path / "var" / "broker"
        assert kept.stat().st_mode & 0o777 == 0o700

    assert "lookup of customers by customer_id" in said[1]
    assert "pipeline shop is valid" in said[2]
    assert "shop is stopped" in said[-1]
    assert "behind: 0 records" in said[-1]
    found = {row["orders_order_id"]: (row["payments_amount"], row["customers_name"]) for row in rows}
    names = [None, "Ann", "Bo"]
    assert found == {number: (Decimal(f"{number}.50"), names[number % 3]) for number in range(60)}


def run(commands: str, directory: Path, environment: dict[str, str]) -> str:
    """Run the commands of a block; return what they print."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
