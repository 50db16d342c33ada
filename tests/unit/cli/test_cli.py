"""The command line, as a child process: one clear line and exit code 2 for what a user can mend."""

from __future__ import annotations

import json
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import sqlalchemy as sa
import typer

from endmark.cli.app import app
from endmark.control.ops_database import forecasts
from endmark.control.ops_database.database import OpsDatabase
from endmark.control.ops_database.forecasts import JoinStateForecast, LookupForecast
from endmark.pipelines import AUCTION
from endmark_feed.relation import seed_relation
from support.commands import assert_one_line, endmark


def impatient(tmp_path: Path) -> str:
    """The auction pipeline, which gives its database up after a second."""
    file = tmp_path / "pipeline.yaml"
    file.write_text(AUCTION.read_text().replace("table: sellers", "table: sellers\n    retry: 1s"))
    return str(file)


def test_valid_pipeline() -> None:
    """`validate` says that the example is valid."""
    ended = endmark("validate", ENDMARK_RELATION_URL="sqlite:///r.db")

    assert ended.returncode == 0
    assert "pipeline auction is valid" in ended.stdout


def _sellers(path: Path, rows: int) -> str:
    url = f"sqlite:///{path / 'r.db'}"
    seed_relation(url, rows, seed=1)
    return url


RATES = ("--rate=items=10", "--rate=bids=100", "--interval=bids=50", "--until-closed=items=30")


class Planned(NamedTuple):
    """A plan as JSON, what the ops database holds of it, and the time before it was made."""

    report: dict[str, Any]
    lookup: LookupForecast
    join: JoinStateForecast
    since: float


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Planned:
    """One plan for all tests of its parts, since each measures the machine for some seconds."""
    path, since = tmp_path_factory.mktemp("planned"), time.time()
    ops_url = f"sqlite:///{path / 'ops.db'}"
    options = ("--memory=2MB", "--batch-rows=5000", "--json", f"--ops-url={ops_url}")
    ended = endmark("plan", *RATES, *options, ENDMARK_RELATION_URL=_sellers(path, 20_000))
    assert ended.returncode == 0, ended.stderr
    with closing(OpsDatabase(ops_url)) as database:
        (lookup,), join = forecasts.newest_forecasts(database, "auction")
    assert join is not None
    return Planned(json.loads(ended.stdout), lookup, join, since)


def test_a_plan_of_the_lookup(planned: Planned) -> None:
    """It names every way to look up, the fastest first, and what more memory gives."""
    found = planned.report
    rates = [each["rate"] for each in found["predictions"]]
    assert rates == sorted(rates, reverse=True)
    assert {each["strategy"] for each in found["predictions"]} == {
        "hybrid", "mesh", "hybrid at once", "batched", "scan", "inlj",
    }  # fmt: skip
    assert found["setup"]["memory"] == 2_000_000
    assert found["setup"]["relation_rows"] == 20_000
    rows = [each["rows_per_read"] for each in found["what_if"].values()]
    assert rows == sorted(rows)

    by_memory = {
        memory: {each["strategy"]: each["rate"] for each in some}
        for memory, some in found["by_memory"].items()
    }
    assert list(by_memory) == list(found["what_if"])
    assert by_memory["2000000"] == {each["strategy"]: each["rate"] for each in found["predictions"]}
    assert by_memory["500000"]["scan"] == by_memory["8000000"]["scan"]


def test_a_plan_of_the_join(planned: Planned) -> None:
    """It is made from given figures, by preset and by parts of the window."""
    join = planned.report["join"]
    assert join["figures"]["streams"]["items"]["until_closed"] == 30
    assert join["by_preset"]["pjoin"]["1.0"]["left"]["rows"] == pytest.approx(300, rel=0.05)
    assert join["by_preset"]["shj"]["1.0"]["left"]["rows"] is None


def test_a_plan_is_told_to_the_sidecar(planned: Planned) -> None:
    """The ops database holds it with its assumptions."""
    lookup, join = planned.lookup, planned.join
    assert (lookup.relation, lookup.relation_rows, lookup.batch_rows) == ("sellers", 20_000, 5_000)
    assert lookup.by_memory[2].memory == lookup.memory
    fastest = max(lookup.by_memory[2].rates.values())
    assert fastest == pytest.approx(planned.report["predictions"][0]["rate"])

    assert (join.preset, join.windows) == ("auto", [60, 10])
    assert (join.given, join.measured_until) == (True, None)
    assert planned.since <= join.made_at <= time.time()
    assert {each.stream: each.rate for each in join.streams} == {"items": 10, "bids": 100}
    rows = {str(each.preset): each.streams[0].rows for each in join.by_preset}
    assert rows["pjoin"] == planned.report["join"]["by_preset"]["pjoin"]["1.0"]["left"]["rows"]
    assert rows["shj"] is None


def test_a_plan_for_people(tmp_path: Path) -> None:
    """It tells the lookup's rates, and how to plan the join."""
    ops_url = f"sqlite:///{tmp_path / 'ops.db'}"
    people = endmark("plan", f"--ops-url={ops_url}", ENDMARK_RELATION_URL=_sellers(tmp_path, 20_000))
    assert people.returncode == 0, people.stderr
    assert "hybrid: the pages of the oldest waiting rows; the others wait in memory" in people.stdout
    assert "the join is not predicted: give --rate of each stream" in people.stdout
    with closing(OpsDatabase(ops_url)) as database:
        (told,), join = forecasts.newest_forecasts(database, "auction")
    assert join is None
    assert told.batch_rows == 100_000
    assert f"{max(told.by_memory[2].rates.values()):12,.0f}" in people.stdout


def test_what_cannot_be_planned(tmp_path: Path) -> None:
    """An empty relation and a size that is none are refused."""
    empty = endmark("plan", ENDMARK_RELATION_URL=_sellers(tmp_path, 0))
    assert_one_line(empty, "relation sellers: the relation is empty")
    wrong = endmark("plan", "--memory=lots")
    assert wrong.returncode == 2
    assert "'lots' is not a size" in wrong.stderr
    nameless = endmark("plan", "--rate=bids", ENDMARK_RELATION_URL="sqlite:///r.db")
    assert_one_line(nameless, "--rate: 'bids' must be the name of a stream, = and a number above 0")


@pytest.mark.parametrize("option", ["exponent", "lag"])
@pytest.mark.parametrize("number", ["inf", "nan"])
def test_a_plan_takes_finite_numbers(option: str, number: str) -> None:
    """Others gave NaN for rates, which is no JSON."""
    ended = endmark("plan", f"--{option}={number}", ENDMARK_RELATION_URL="sqlite:///r.db")

    assert ended.returncode == 2
    assert f"Invalid value for '--{option}'" in ended.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("feed-example", "fulfilment", "--minutes=0"),
        ("feed-example", "fulfilment", "--kafka=none.yaml"),
        ("feed", "--kafka=none.yaml"),
        ("feed-workload", "zipf-100-1-500", "--topic=t", "--kafka=none.yaml"),
    ],
)
def test_feeds_fill_no_table_when_an_option_is_wrong(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    file = tmp_path / "r.db"
    ended = endmark(*arguments, ENDMARK_RELATION_URL=f"sqlite:///{file}")

    assert ended.returncode == 2
    assert not file.exists()


def test_wrong_pipeline_names_the_field(tmp_path: Path) -> None:
    """A misspelt field is named, for people and as JSON."""
    file = tmp_path / "p.yaml"
    file.write_text(AUCTION.read_text().replace("    on: item_id", "    onn: item_id"))

    assert_one_line(
        endmark("validate", str(file), ENDMARK_RELATION_URL="x"), "steps.matched.onn: unknown field"
    )
    ended = endmark("validate", str(file), "--json", ENDMARK_RELATION_URL="x")
    assert ended.returncode == 2
    assert "steps.matched.onn: unknown field" in json.loads(ended.stdout)["error"]


def test_wrong_condition_is_placed(tmp_path: Path) -> None:
    """DuckDB checks it after the file is read, and the error has the file and the line all the same."""
    file = tmp_path / "p.yaml"
    file.write_text(
        AUCTION.read_text().replace("    on: item_id", "    on: item_id\n    where: bids.price > 1")
    )
    line = file.read_text().splitlines().index("    where: bids.price > 1") + 1

    assert_one_line(
        endmark("validate", str(file), ENDMARK_RELATION_URL="sqlite://"),
        f"{file}: line {line}: steps.matched.where: no column 'bids.price'",
    )


def test_port_in_use() -> None:
    """A taken port is named."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert_one_line(endmark("ops", "--ops-url=sqlite://", f"--port={port}"), str(port), "in use")


def test_missing_java(tmp_path: Path) -> None:
    """Without Java the demo says what to install."""
    ended = endmark("demo", f"--directory={tmp_path}", PATH="", JAVA_HOME="")
    assert_one_line(ended, "Java 17 or newer is needed", "install")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("sqlite:///{}/empty.db", "relation 'sellers': the database has no such table, only: none"),
        ("sqlite:///{}/narrow.db", "no column rating; there are seller_id, name, country"),
        ("sqlite:////nowhere/r.db", "the relation's file /nowhere/r.db does not exist"),
    ],
)
def test_a_relation_that_cannot_be_read(tmp_path: Path, url: str, says: str) -> None:
    """One line says why. `plan` checks a relation as `run` does, without Java."""
    columns: list[sa.Column[Any]] = [
        sa.Column("seller_id", sa.BigInteger),
        sa.Column("name", sa.Text),
        sa.Column("country", sa.Text),
    ]
    (tmp_path / "empty.db").touch()
    narrow = sa.create_engine(f"sqlite:///{tmp_path}/narrow.db")
    sa.Table("sellers", sa.MetaData(), *columns).create(narrow)

    ended = endmark("plan", impatient(tmp_path), ENDMARK_RELATION_URL=url.format(tmp_path))

    assert_one_line(ended, "relation", says)


def _run(tmp_path: Path, url: str) -> subprocess.CompletedProcess[str]:
    return endmark(
        "run",
        impatient(tmp_path),
        "--bootstrap=127.0.0.1:1",
        f"--warehouse={tmp_path}",
        f"--checkpoint={tmp_path / 'checkpoint'}",
        f"--ops-url=sqlite:///{tmp_path / 'ops.db'}",
        ENDMARK_RELATION_URL=url,
    )


@pytest.mark.parametrize("command", [["verify", str(AUCTION)], ["dead-letters", "list", str(AUCTION)]])
def test_a_warehouse_without_tables(tmp_path: Path, command: list[str]) -> None:
    """A mistyped path must not look like lost rows, or like no dead letters."""
    ended = endmark(*command, f"--warehouse={tmp_path}", ENDMARK_RELATION_URL="sqlite:///r.db")
    assert_one_line(ended, f"warehouse {tmp_path} has no table", "name the one that", "job writes")


def test_addresses_that_are_none() -> None:
    for command in ("run", "verify", "status", "ops"):
        ended = endmark(command, "--broker=localhost:abc", ENDMARK_RELATION_URL="sqlite:///r.db")
        assert ended.returncode == 2
        assert "must be host:port" in ended.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["run", "--master=foo"], "'foo' must be local[N], yarn,"),
        (["run", "--driver-memory=abc"], "'abc' must be a number and a unit"),
        (["maintain", str(AUCTION), f"--keep-days={10**11}"], "less than or equal to 36500"),
        (["dead-letters", "list", str(AUCTION), f"--limit={10**20}"], "less than or equal to 1000000"),
    ],
)
def test_options_out_of_range(options: list[str], says: str) -> None:
    ended = endmark(*options, ENDMARK_RELATION_URL="sqlite:///r.db")
    assert (ended.returncode, says in ended.stderr) == (2, True), ended.stderr


def test_the_version_is_said() -> None:
    ended = endmark("--version")
    assert (ended.returncode, ended.stdout) == (0, f"endmark {version('endmark')}\n")


def test_a_relation_without_pages(tmp_path: Path) -> None:
    """A job whose strategy reads pages names those that do not. A plan says why it predicts no lookup."""
    url = _sellers(tmp_path, 10)
    with closing(sqlite3.connect(tmp_path / "r.db")) as database:
        database.executescript(
            "ALTER TABLE sellers RENAME TO people; CREATE VIEW sellers AS SELECT * FROM people;"
        )
    ended = _run(tmp_path, url)
    assert_one_line(
        ended,
        "steps.known.lookup.strategy: 'hybrid' reads pages, but relation 'sellers' is a view",
        "or take one of auto, inlj, batched",
    )
    people = endmark("plan", *RATES, ENDMARK_RELATION_URL=url)
    assert people.returncode == 0, people.stderr
    assert "the lookup is not predicted: relation 'sellers' is a view" in people.stdout
    assert "stream bids: 100.0 rows/s, a punctuation every 50.0 rows" in people.stdout


def test_each_command_takes_json() -> None:
    """The page of commands says so, and scripts give the option to all of them."""

    def commands(group: Any, name: str) -> Iterator[tuple[str, list[str]]]:
        for word, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from commands(command, f"{name} {word}")
            else:
                yield f"{name} {word}", [option for each in command.params for option in each.opts]

    found = commands(typer.main.get_command(app), "endmark")
    lacking = [name for name, options in found if "--json" not in options]
    assert lacking == []


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["validate"], 0),
        (["explain"], 0),
        (["knobs", "fields"], 0),
        (["maintain"], 2),
        (["dead-letters", "list"], 2),
        (["plan"], 2),
    ],
)
def test_the_address_of_a_relation_is_for_commands_that_ask_it(
    tmp_path: Path, command: list[str], code: int
) -> None:
    """Upkeep and a check of the file in CI do without the database's password."""
    where = [f"--warehouse={tmp_path}"] if command[0] in ("maintain", "dead-letters") else []
    ended = endmark(*command, str(AUCTION), *where)

    assert ended.returncode == code, ended.stderr
    assert ("ENDMARK_RELATION_URL is not set" in ended.stderr) == (command == ["plan"])


def test_fields_of_a_file_and_what_a_change_takes(tmp_path: Path) -> None:
    """A stream without `idle` cannot turn it, and a column has its exception."""
    file = tmp_path / "p.yaml"
    file.write_text(AUCTION.read_text().replace("{column: listed_at", "{idle: 30s, column: listed_at"))

    told = endmark("knobs", "fields", str(file)).stdout.splitlines()

    turned = (
        "streams.items.event_time.idle: turn (for a stream that has one; adding or removing it takes a new "
    )
    assert f"{turned}checkpoint)" in told
    assert "streams.bids.event_time.idle: new checkpoint" in told
    assert any(
        line.startswith("streams.bids.columns.item_id: new checkpoint (a column that") for line in told
    )


def test_a_drawing_as_json() -> None:
    ended = endmark("validate", "--mermaid", "--json", ENDMARK_RELATION_URL="sqlite:///r.db")
    assert json.loads(ended.stdout)["mermaid"].startswith("flowchart LR\n")


def test_a_pipeline_is_forgotten(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ops.db'}"
    with closing(OpsDatabase(url)) as database:
        database.pipelines.describe("auction", {})
    ended = endmark("forget", "auction", f"--ops-url={url}", "--json")

    assert (ended.returncode, json.loads(ended.stdout)) == (0, {"pipeline": "auction", "forgotten": True})


def test_a_knob_without_a_broker() -> None:
    """The exit code says that a later try may succeed."""
    turn = ("knobs", "set", str(AUCTION), "batch.records", "5")
    ended = endmark(*turn, "--bootstrap=127.0.0.1:1", ENDMARK_RELATION_URL="sqlite:///r.db")

    assert_one_line(ended, "no Kafka broker at 127.0.0.1:1 takes a record for topic auction-control", code=75)


def test_missing_database(tmp_path: Path) -> None:
    """A job whose database is away ends with one line, without the password."""
    ended = _run(tmp_path, "mysql+pymysql://u:secret@127.0.0.1:1/w")

    assert_one_line(ended, "relation 'sellers'", "the database did not answer for", code=75)
    assert "secret" not in ended.stderr + ended.stdout
