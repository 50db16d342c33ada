"""The stream `zipf-[products]-[exponent]-[rate]` has its skew, its rate and its bursts, and a relation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from endmark.cli.app import app
from endmark_feed.papers.event import Event
from endmark_feed.papers.names import FORMS, parse_workload
from endmark_feed.papers.products import fill_products, products_table
from endmark_feed.zipf import zipf_shares


def events(name: str, rows: int, seed: int = 1) -> list[Event]:
    return list(parse_workload(name, rows).events(seed))


@pytest.mark.parametrize(
    ("products", "exponent"), [(2_000_000, "1"), (20_000, "1"), (20_000, "0.5"), (20_000, "0")]
)
def test_the_top_fifth_has_its_share(products: int, exponent: str) -> None:
    """88.9 % of 2 M products at exponent 1, where the paper says 80 %."""
    keys = np.array([event.key for event in events(f"zipf-{products}-{exponent}-1000", 40_000)])
    expected = zipf_shares(float(exponent), products)[: products // 5].sum()
    if (products, exponent) == (2_000_000, "1"):
        assert expected == pytest.approx(0.889, abs=0.001)
    assert (keys <= products // 5).mean() == pytest.approx(expected, abs=0.01)
    assert keys.min() >= 1
    assert keys.max() <= products


def test_the_rate_is_the_mean_of_a_run() -> None:
    stream = events("zipf-1000-1-250", 5_000)
    assert len(stream) == 5_000
    assert [event.serial for event in stream] == list(range(5_000))
    assert 0.9 * 20 < stream[-1].seconds < 20
    assert not any(event.closes for event in stream)


def test_rows_come_in_bursts_at_every_scale() -> None:
    """The variance of the mean of m seconds falls as m^(2H - 2); independent arrivals have H = 0.5."""
    seconds, widths = 10_000, np.array([10, 20, 40, 80, 160])
    at = np.array([event.seconds for event in events("zipf-100-1-20", 20 * seconds)])
    counts = np.histogram(at, bins=seconds, range=(0, seconds))[0]
    variances = [counts[: seconds // m * m].reshape(-1, m).mean(axis=1).var() for m in widths]
    slope = np.polyfit(np.log(widths), np.log(variances), 1)[0]
    assert 0.6 < 1 + slope / 2 < 0.95


def test_seeds_differ_and_repeat() -> None:
    assert events("zipf-1000-1-100", 500) == events("zipf-1000-1-100", 500)
    assert events("zipf-1000-1-100", 500) != events("zipf-1000-1-100", 500, seed=2)


def test_the_relation_has_every_product(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'r.db'}"
    assert fill_products(url, 25_000) == 25_000
    assert fill_products(url, 25_000) == 0
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        found = connection.execute(sa.select(products_table)).all()
    engine.dispose()
    assert [row.product_id for row in found] == list(range(1, 25_001))
    assert found[-1].price == 12_500.0
    # 8 bytes each of key and price, and about 120 in all.
    lengths = [16 + len(row.name) + len(row.description) for row in found]
    assert 90 < np.mean(lengths) < 130


def test_the_command_lists_all_streams() -> None:
    run = CliRunner().invoke(app, ["feed-workload", "--list"])
    assert run.exit_code == 0, run.output
    assert run.output.splitlines() == [f"{form}: {line}" for form, line in FORMS.items()]


def test_the_command_fills_the_relation_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No broker answers, but the table is there by then."""
    monkeypatch.setattr("endmark_feed.publish.create_topics", _refuse)
    url = f"sqlite:///{tmp_path / 'r.db'}"
    arguments = ["zipf-300-1-100", "--topic=sales", "--bootstrap=nowhere:1", f"--relation-url={url}"]
    run = CliRunner().invoke(app, ["feed-workload", *arguments])
    assert isinstance(run.exception, ConnectionRefusedError)
    assert fill_products(url, 300) == 0


def _refuse(bootstrap: str, partitions: object) -> None:
    raise ConnectionRefusedError
