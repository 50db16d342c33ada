"""Reports and pages that the benchmarks make of runs; no run of Spark is needed."""

from __future__ import annotations

import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from endmark.errors import ConfigError, EndmarkError, MissingPartError
from endmark_benchmarks.harness import origin
from endmark_benchmarks.harness.contest import Digest, Rates, compared, in_process, interleaved, with_parts
from endmark_benchmarks.measurements.lookup_join import CONTENDERS, LookupJoinOptions
from endmark_benchmarks.page.chart import bars
from endmark_benchmarks.page.summary import summary_table
from endmark_benchmarks.page.write import _machines, of_operators, pages, pictures, read, render, tables
from endmark_benchmarks.workloads.faraway import Faraway
from endmark_benchmarks.workloads.lookup_input import Sizes

ROOT = Path(__file__).parents[3]
PAGE, RESULTS = ROOT / "docs" / "bench.md", ROOT / "benchmarks" / "results"


def test_a_digest_is_a_sum() -> None:
    assert Digest.total([]) == (0, 0, 0)
    assert Digest.total([[2, -5, 7], (1, 3, 9)]) == Digest(3, -2, 16)


def test_contenders_take_turns() -> None:
    assert list(interleaved(["a", "b"], 2)) == [(0, "a"), (0, "b"), (1, "b"), (1, "a")]


def test_turns_begin_apart() -> None:
    turns = list(interleaved("abcdef", 3, first=1))

    assert ["".join(name for turn, name in turns if turn == each) for each in range(3)] == [
        "bcdefa",
        "defabc",
        "fabcde",
    ]
    assert not list(interleaved([], 2))


def test_ratios_are_of_medians() -> None:
    found = compared({"ours": Rates.of([100, 400, 90]), "theirs": Rates.of([50, 20, 40])}, "ours")

    assert found["theirs"] == {"runs": (50, 20, 40), "median": 40, "least": 20, "most": 50, "ratio": 2.5}
    assert found["ours"]["ratio"] == 1


def test_a_process_that_fails_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(EndmarkError, match="no_such_module failed for them"):
        in_process("no_such_module", {"contender": "them"})
    assert "No module named" in capfd.readouterr().err


def test_a_process_gets_its_task_and_answers_in_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "says_it_twice.py").write_text(
        "print('warming up'); task = input(); print(task); print(task)"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    task = {"contender": "them", "cells": [1, 2]}

    assert in_process("says_it_twice", task) == [task, task]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"contenders": ("endmark-auto", "flnk")}, "'flnk' is not one of endmark-auto, "),
        ({"batch_rows": (1001,)}, "1001 must be a multiple of 2"),
        ({"batch_rows": (1000, 1500)}, "1000 must be a multiple of 2, and others of it"),
        ({"batch_rows": (1000, 4000)}, "4000 must be at most a third of --stream-rows, 10000"),
    ],
)
def test_options_are_checked(changed: dict[str, Any], says: str, tmp_path: Path) -> None:
    fits: dict[str, Any] = {
        "stream_rows": 10_000,
        "relation_rows": 10,
        "batch_rows": (1_000, 3_000),
        "delays": (0.0,),
        "driver": "pymysql",
        "repeats": 1,
        "contenders": ("endmark-auto",),
        "directory": tmp_path,
    }
    assert LookupJoinOptions(**fits).sizes == Sizes(stream=10_000, file=500, relation=10)
    with pytest.raises(ConfigError, match=re.escape(says)):
        LookupJoinOptions(**(fits | changed))


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that answers each message with its length, to one client after the other."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):  # when the test is over
                while True:
                    client, _ = server.accept()
                    with client:
                        while said := client.recv(1 << 16):
                            client.sendall(b"%d;" % len(said))

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def test_what_is_said_from_afar_arrives_later(echo: int) -> None:
    with Faraway(echo, 0.2) as away, socket.create_connection(("127.0.0.1", away.port)) as client:
        for said in (b"one", b"three"):
            started = time.monotonic()
            client.sendall(said)
            assert client.recv(100) == b"%d;" % len(said)
            assert time.monotonic() - started >= 0.2


def test_what_is_said_at_once_waits_once(echo: int) -> None:
    # A busy machine makes one take long.
    assert any(seconds_for_five(echo) < 5 * 0.3 for _ in range(3))


def seconds_for_five(echo: int) -> float:
    """Send five messages over a link with a delay of 0.3 s, and return how long their answers take."""
    with Faraway(echo, 0.3) as away, socket.create_connection(("127.0.0.1", away.port)) as client:
        started = time.monotonic()
        for _ in range(5):
            client.sendall(b"x")
            time.sleep(0.02)
        heard = 0
        while heard < 5:
            heard += sum(int(length) for length in client.recv(100).decode().split(";") if length)
        return time.monotonic() - started


def test_who_hangs_up_is_hung_up_on(echo: int) -> None:
    with Faraway(echo, 0.0) as away:
        client = socket.create_connection(("127.0.0.1", away.port))
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", away.port))


def test_a_bar_is_as_long_as_its_rate_on_a_logarithmic_scale() -> None:
    rates = {"slow": Rates.of([100.0]), "fast": Rates.of([1_000.0, 10_000.0, 100_000.0])}
    drawn = ET.fromstring(bars("a < b", rates, ["fast"]))  # noqa: S314  # our own
    space = "{http://www.w3.org/2000/svg}"
    lengths = [float(each.get("width", 0)) for each in drawn.findall(f"{space}rect")[1:]]
    spread = drawn.findall(f"{space}line")[-1]

    assert lengths == [0, pytest.approx(2 / 3 * 420, abs=0.1)]
    assert float(spread.get("x2", 0)) - float(spread.get("x1", 0)) == pytest.approx(2 / 3 * 420, abs=0.1)
    assert next(text.text for text in drawn.findall(f"{space}text")) == "a < b"


def test_equal_rates_have_a_scale() -> None:
    assert "NaN" not in bars("", {"one": Rates.of([10.0])}, [])


def test_a_report_names_its_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert head.stdout.startswith(origin.commit().rstrip("+"))
    monkeypatch.setattr(origin, "__file__", str(tmp_path / "a" / "b" / "c" / "d"))
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    assert origin.commit() == "none"


def test_slow_contenders_read_less() -> None:
    for contender in CONTENDERS.values():
        # The first third only warms up.
        assert contender.batches is None or contender.batches >= 3


def test_contenders_without_their_jars_are_left_out() -> None:
    def missing(_: object) -> list[Path]:
        raise MissingPartError("no network")

    said: list[str] = []

    assert with_parts(["ours", "a", "b"], ["a", "b", "c"], missing, said.append) == (["ours"], [])
    assert said == ["left out a, b: no network"]
    assert with_parts(["ours"], ["a"], missing, said.append) == (["ours"], [])
    assert with_parts(["ours", "a"], ["a"], lambda _: [Path("x.jar")], print) == (["ours", "a"], ["x.jar"])
    assert len(said) == 1


WHERE = {"keys": "zipf", "delay_ms": 0.0}


def a_report(bench: str, **found: Any) -> dict[str, Any]:
    machine = {"processor": "abacus", "cores": 2, "memory_gb": 1, "load": 0.5}
    options = {"rows": 20_000, "delays": (0.0, 2.0), "driver": "pymysql"}
    return {
        "bench": bench,
        "commit": "c0ffee",
        "date": "2026-01-31",
        "machine": machine,
        "versions": {"python": "3.11"},
        "options": options,
        **found,
    }


def test_a_cell_is_shown_as_a_table_beneath_its_picture() -> None:
    rates = {"endmark-auto": Rates.of([9_000.0, 10_000.0, 11_000.4]), "memory": Rates.of([40_000.0])}
    contenders = compared(rates, "endmark-auto")
    report = a_report("lookup-join", cells=[{"title": "zipf keys", **WHERE, "contenders": contenders}])

    said = render("<!-- begin lookup-join -->\nold\n<!-- end -->\n", {"lookup-join": report})

    origin_line = (
        "From [lookup_join.json](../../benchmarks/results/lookup_join.json): commit c0ffee, 2026-01-31; "
        "abacus, 2 cores, 1 GB, load 0.5 before; rows 20,000, delays 0 and 2, driver pymysql.\n<!-- end -->"
    )
    assert origin_line in said
    assert "**zipf keys**\n\n![zipf keys](lookup-join-1.svg)\n\n| contender |" in said
    assert (
        "| endmark-auto | 10,000 | 9,000 | 11,000 | 1.00 |\n| memory | 40,000 | 40,000 | 40,000 | 0.25 |"
        in said
    )
    assert "old" not in said
    assert list(pictures(report, "lookup-join")) == ["lookup-join-1.svg"]


def test_single_runs_have_no_spread() -> None:
    rates = {"endmark": Rates.of([1_000.0]), "duckdb": Rates.of([30_000.0])}
    cell = {"title": "one run", "contenders": compared(rates, "endmark")}
    [table] = tables(a_report("stream-join", cells=[cell]))

    assert table.headings == ("contender", "rows/s", "endmark / this")
    assert table.rows == [["endmark", "1,000", "1.00"], ["duckdb", "30,000", "0.033"]]


def test_the_summary_has_the_range_of_each_contender() -> None:
    cells = [
        {"title": "", "contenders": compared({"endmark": Rates.of([ours]), **others}, "endmark")}
        for ours, others in (
            (1_000.0, {"spark-heap": Rates.of([500.0]), "duckdb": Rates.of([4_000.0])}),
            (3_000.0, {"spark-heap": Rates.of([600.0]), "unheard-of": Rates.of([1.0])}),
        )
    ]
    latency = {"loads": [{"share": 50.0, "seconds": {"p50": 1.0, "p95": 1.5, "p99": 2.0}}]}
    recovery = {"runs": {"start": [{"a": 1.0, "b": 2.0}]}}
    found = summary_table({"stream-join": {"cells": cells}, "latency": latency, "recovery": recovery})

    assert found.rows == [
        [
            "[stream join](bench/stream-join.md#stream-join)",
            "1,000 to 3,000 rows/s",
            "Spark, state on the heap",
            "2.00 to 5.00",
        ],
        ["", "", "DuckDB, all at once", "0.25"],
        [
            "[latency](bench/pipeline.md#latency) at 50 % of the highest rate",
            "p50 1.00 s, p99 2.00 s",
            "",
            "",
        ],
        ["[first output](bench/pipeline.md#start-and-recovery) after start", "3.00 s", "", ""],
    ]


def test_the_page_names_every_machine_and_version() -> None:
    other = a_report("pipeline")
    other["machine"] = other["machine"] | {"processor": "slide rule"}
    other["versions"] = {"python": "3.12", "mariadb": "10.11"}
    reports = {"stream-join": a_report("stream-join"), "pipeline": other}

    assert _machines(reports) == (
        "- abacus, 2 cores, 1 GB; slide rule, 2 cores, 1 GB\n- python 3.11 and 3.12, mariadb 10.11"
    )


def test_a_map_is_shown_by_skew() -> None:
    mesh = {"relation_rows": 500, "strategy": "mesh"}
    found = [
        (0.0, 0.0, 0, 840.0),
        (0.0, 0.0, 50, 9_940.0),
        (0.0, 1.0, 0, 10_400.0),
        (0.0, 1.0, 50, 2_500_900.0),
        (2.0, 1.0, 0, 5_000.0),
    ]
    names = ("delay", "exponent", "waits", "rate")
    runs = [mesh | dict(zip(names, each, strict=True)) for each in found]

    _, near, far = tables(a_report("lookup-map", runs=runs))

    assert (near.title, far.title) == ("500 rows of R, 0 ms away", "500 rows of R, 2 ms away")
    assert near.headings == ("thousand rows/s, by exponent", "0", "1")
    assert near.rows == [["mesh", "0.8", "10"], ["mesh, 50 MB wait", "9.9", "2,501"]]
    assert far.rows == [["mesh", "5.0"]]


def test_a_map_says_who_wins_and_how_near_auto_comes() -> None:
    place = {"relation_rows": 500, "delay": 0.0, "waits": 0}
    rates = {0.0: {"auto": 9.0, "mesh": 10.0, "scan": 5.0, "memory": 20.0}, 1.0: {"auto": 3.0, "mesh": 2.0}}
    runs = [
        place | {"exponent": exponent, "strategy": name, "rate": rate}
        for exponent, found in rates.items()
        for name, rate in found.items()
    ]
    runs.append(place | {"waits": 50, "exponent": 1.0, "strategy": "auto", "rate": 1.0})

    report = a_report("lookup-map", runs=runs)
    winners = tables(report)[0]

    assert winners.headings == ("R, distance, memory", "exponent 0", "exponent 1")
    assert winners.rows == [
        ["500 rows, 0 ms, none wait", "mesh, 0.90", "auto, 1.50"],
        ["500 rows, 0 ms, 50 MB wait", "", ""],
    ]
    [picture] = pictures(report, "lookup-map").values()
    assert "mesh 0.90" in picture
    assert "auto 1.50" in picture


def test_hybridjoin_stands_beside_meshjoin_with_intervals_and_predictions() -> None:
    hybrid = {"rates": [300e3, 320e3, 310e3], "rows_per_read": [170.0, 180.0, 175.0], "predicted": 400e3}
    meshjoin = {"rates": [200e3, 200e3, 200e3], "rows_per_read": [99.0, 99.0, 99.0], "predicted": 250e3}
    best_page = {"rates": [9_000.0] * 3, "rows_per_read": [1.0] * 3, "predicted": None}
    contenders = {"hybrid": hybrid, "meshjoin": meshjoin, "best_page": best_page}
    size = {"relation_rows": 500_000, "memory": 50}
    kinds = [(0.0, "sorted"), (1.0, "scattered")]
    cells = [
        size | {"exponent": exponent, "layout": layout, "contenders": contenders}
        for exponent, layout in kinds
    ]

    ratios, rows, without_skew, with_skew = tables({"bench": "hybridjoin_rates", "cells": cells})

    assert ratios.headings == ("rows of R, memory", "exponent 0", "exponent 1, scattered")
    assert ratios.rows == [["0.5 M, 50 MB", *2 * ["1.55 ± 0.12 (1.60)"]]]
    assert rows.rows == [["0.5 M, 50 MB", *2 * ["175, 99"]]]
    assert with_skew.title == "Thousand rows/s, exponent 1, scattered"
    assert without_skew.rows == [["0.5 M, 50 MB", "310 ± 25 (400)", "200 ± 0 (250)", "9.0 ± 0.0"]]


def test_reads_of_a_relation_stand_beside_each_other() -> None:
    drivers = {"pymysql": {"keys": 2_000, "rows": 5}, "mysqldb": {"keys": 1_500, "rows": 4}}
    [table] = tables({"bench": "relation", "drivers": drivers})
    assert table.headings == ("read", "pymysql", "mysqldb")
    assert table.rows == [["keys", "2,000", "1,500"], ["rows", "5", "4"]]


def test_what_has_no_result_says_so() -> None:
    page = "<!-- begin stream-join -->\nold\n<!-- end -->\n"

    assert render(page, {}) == "<!-- begin stream-join -->\nNo result is kept.\n<!-- end -->\n"


def test_the_pages_are_written_from_the_results() -> None:
    found = read(RESULTS)
    assert found.keys() >= {"stream-join", "lookup-join", "pipeline", "latency", "recovery"}
    texts = [page.read_text() for page in pages(PAGE)]
    assert [render(text, found, of_operators(PAGE)) for text in texts] == texts, "run make docs"
    text = "\n".join(texts)
    for section, each in found.items():
        assert f"<!-- begin {section} -->" in text
        assert all(cell in text for table in tables(each) for row in table.rows for cell in row)
        for name, picture in pictures(each, section).items():
            assert (PAGE.with_suffix("") / name).read_text() == picture, "run make docs"
