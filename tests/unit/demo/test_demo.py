"""When the demo takes its job for done, and what it says of the lookup."""

from __future__ import annotations

import math
import socket
from contextlib import closing
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from endmark.control.description import describe
from endmark.control.ops_database.database import OpsDatabase
from endmark.demo.choreography import DemoOptions, caught_up, new_folder, run_demo
from endmark.demo.view import DemoState, live_view, lookup_lines
from endmark.errors import ConfigError, MissingPartError
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION


def test_demos_that_begin_in_the_same_second_have_folders_of_their_own(tmp_path: Path) -> None:
    """The second one was refused. A clock that is put back makes equal names, too."""
    folders = {new_folder(tmp_path / "demo") for _ in range(5)}

    assert len(folders) == 5
    assert set((tmp_path / "demo").iterdir()) == folders


def test_a_port_in_use_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """The demo said so when broker, feed and job were running, half a minute later."""
    options = DemoOptions("auction", 0.1, 1, 10.0, 10, "sqlite", tmp_path / "demo", port=0, kills=0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(MissingPartError, match=f"dashboard: port {port} of 127.0.0.1 is in use; stop"):
            run_demo(replace(options, port=port), as_json=True)

    assert not (tmp_path / "demo").exists()


def test_a_batch_that_found_the_topics_empty_has_not_caught_up(tmp_path: Path) -> None:
    with closing(OpsDatabase(f"sqlite:///{tmp_path / 'ops.db'}")) as ops:
        ops.batches.record("auction", 0, "run", {}, {})

        assert not caught_up(ops, "auction", "127.0.0.1:1")


def test_a_batch_that_leaves_rows_waiting_has_not_caught_up(tmp_path: Path) -> None:
    """The broker is not even asked, since another batch is due."""
    with closing(OpsDatabase(f"sqlite:///{tmp_path / 'ops.db'}")) as ops:
        ops.batches.record("auction", 0, "run", {"batch_due_time_seconds": 1.8e9}, {"bids": {"0": 1}})

        assert not caught_up(ops, "auction", "127.0.0.1:1")


def test_the_view_fits_a_terminal(tmp_path: Path) -> None:
    """No name is cut off in 80 characters, which is also the width of a file."""
    names = "records", "join_results", "groups_closed", "join_dropped_rows", "join_invalidated_rows"
    with closing(OpsDatabase(f"sqlite:///{tmp_path / 'ops.db'}")) as ops:
        ops.batches.record("auction", 0, "run", {f"{name}_total": 12_345_678.0 for name in names}, {})
        written = StringIO()
        view = live_view(DemoState("auction", "", ops, 12_345_678))
        Console(width=80, file=written, color_system=None).print(view)

    shown = written.getvalue()
    assert shown.count("12,345,678") == 6
    assert "…" not in shown
    for name in ("out of window", "groups final", "dead letters", "never stored", "lookup reads"):
        assert name in shown


def test_pages_and_waiting_rows_are_summed_up(tmp_path: Path) -> None:
    """Reads are those of all batches, the waiting rows those of the batch that left most."""
    pages, waiting = "lookup_reads_total{by=page,relation=sellers}", "lookup_pending_rows{relation=sellers}"
    with closing(OpsDatabase(f"sqlite:///{tmp_path / 'ops.db'}")) as ops:
        state = DemoState("auction", "", ops)
        assert lookup_lines(state) == []
        described = describe(load(AUCTION, {"ENDMARK_RELATION_URL": "sqlite://"}))
        ops.pipelines.describe("auction", described.model_dump())
        for number, rows in enumerate((10.0, 4_321.0, 0.0)):
            ops.batches.record("auction", number, "run", {pages: 700.0, waiting: rows}, {"bids": {"0": 1}})

        [line] = lookup_lines(state)
        read = "lookup in sellers, strategy hybrid: 2,100 pages and 0 lists of keys read"
        assert line == f"{read}, at most 4,321 rows waiting"


@pytest.mark.parametrize("example", ["auction", "orders"])
@pytest.mark.parametrize(("option", "value"), [("minutes", math.nan), ("minutes", -1.0), ("rate", 0.0)])
def test_numbers_that_no_feed_takes_are_refused_before_a_part_starts(
    tmp_path: Path, example: str, option: str, value: float
) -> None:
    """The demo started its parts for a minute, and then said that the feed had ended."""
    numbers = {"minutes": 1.0, "rate": 10.0} | {option: value}
    with pytest.raises(ConfigError, match=f"{option} .*choose a number from"):
        DemoOptions(example, numbers["minutes"], 1, numbers["rate"], 5, "sqlite", tmp_path, port=0, kills=0)
