"""What is predicted of a pipeline's stream join, from given figures and from the batches of a job."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from endmark.control.ops_database.batches import FinishedBatch
from endmark.errors import ConfigError
from endmark.metrics import Samples, sample
from endmark.operators.stream_join.presets import Preset
from endmark.pipeline import Pipeline
from endmark.planning.join_forecast import JoinFigures, StreamFigures, forecast_join, measured, with_given
from support.verify_world import make_pipeline


def closing(windows: tuple[int | None, int | None] = (5, 5), **join: Any) -> Pipeline:
    return make_pipeline(windows=windows, join=join)


def job(
    pipeline: Pipeline, rows: float, pending: float, right_pending: float | None = None, **counts: float
) -> list[FinishedBatch]:
    """Batches of a job, 1 s and 2 s of event time apart, which all have the same samples.

    Args:
        pipeline: the pipeline.
        rows: rows of each stream in state, of 50 bytes each.
        pending: keys of each stream that are closed and not announced.
        right_pending: such keys of the right stream; `None`: as many.
        counts: counters of each stream; `announced` is of both together.
    """
    batches = []
    for number in range(5):
        samples: Samples = {
            sample("propagated_punctuations_total", by="closed"): counts.get("announced", 0.0)
        }
        for name, waiting in zip(pipeline.sides, (pending, right_pending), strict=True):
            samples[sample("progress_event_time_seconds", stream=name)] = 1000.0 + 2 * number
            samples[sample("state_rows", operator="join", stream=name)] = rows
            samples[sample("state_bytes", operator="join", stream=name)] = 50 * rows
            samples[sample("pending_punctuations", stream=name, waits_for="window")] = (
                pending if waiting is None else waiting
            )
            for counter, value in counts.items():
                if counter != "announced":
                    samples[sample(counter, stream=name)] = value
        batches.append(FinishedBatch(pipeline.name, number, "run", float(number), samples, {}, {}))
    return batches


def test_figures_of_a_job() -> None:
    """200 rows in 2 s, 10 of them dropped, and 4 punctuations. Without a window a row's mean time in state is
    the mean time until its key is closed."""
    pipeline = closing((None, None))
    counts = {"join_inserted_rows_total": 190.0, "join_dropped_rows_total": 10.0, "punctuations_total": 4.0}
    found = measured(pipeline, job(pipeline, rows=300, pending=6, announced=8.0, **counts))

    assert found is not None
    assert found.batch_seconds == 2
    assert found.measured_until == 4.0
    assert found.lag == 12 / (8 / 2)
    assert set(found.streams) == set(pipeline.sides)
    for stream in found.streams.values():
        assert stream == StreamFigures(rate=100, interval=50, until_closed=3, row_bytes=50)


@pytest.mark.parametrize("rows", [30.0, 250.0, 480.0])
def test_a_prediction_for_the_job_is_what_it_has(rows: float) -> None:
    """With a window, which cuts off the time until a key is closed; batches as short as can be."""
    pipeline = closing((5, 5))
    batches = job(pipeline, rows, 0, join_inserted_rows_total=200.0, punctuations_total=4.0)
    figures = measured(pipeline, batches)
    assert figures is not None

    found = forecast_join(pipeline, JoinFigures(figures.streams, batch_seconds=0), buckets=1)

    assert found.by_preset[Preset.AUTO][1.0].left.rows == pytest.approx(rows, rel=0.02)
    assert found.by_preset[Preset.AUTO][1.0].left.bytes == pytest.approx(50 * rows, rel=0.02)
    assert found.by_preset[Preset.WJOIN][1.0].left.rows == pytest.approx(500)
    by_window = [each.rows for each in found.by_preset[Preset.PWJOIN].values()]
    assert by_window == sorted(by_window)


@pytest.mark.parametrize(
    ("windows", "left", "right", "lag", "left_first"),
    [
        ((None, None), 300.0, 100.0, 4.0, 0.75),
        ((60, 10), 1429.0, 138.0, 18.07, 0.82),  # so many keys waited in a demo of the auction
        ((60, 10), 0.0, 300.0, 3.13, 0.0),
        ((60, 10), 6000.0, 0.0, np.inf, 1.0),  # each key waits for the whole window
    ],
)
def test_keys_are_announced_as_late_as_in_the_job(
    windows: tuple[int | None, int | None], left: float, right: float, lag: float, left_first: float
) -> None:
    """100 keys a second are announced. A stream that closes a key first waits no longer than its window."""
    pipeline = closing(windows)
    counts = {"join_inserted_rows_total": 200.0, "punctuations_total": 200.0, "announced": 200.0}
    figures = measured(pipeline, job(pipeline, 30.0, left, right, **counts))
    assert figures is not None
    assert figures.lag == pytest.approx(lag, rel=0.02)
    assert figures.left_first == pytest.approx(left_first, abs=0.01)

    found = forecast_join(pipeline, figures, buckets=1).by_preset[Preset.AUTO][1.0]

    assert found.announced_after == pytest.approx((left + right) / 100 + 1, rel=0.02)  # and half a batch


def test_rows_that_only_the_window_frees() -> None:
    """A full window means that no key is closed within it; under `wjoin` nothing is known of closings."""
    pipeline = closing((5, 5))
    full = measured(pipeline, job(pipeline, 500, 0, join_inserted_rows_total=200.0))
    assert full is not None
    assert {each.until_closed for each in full.streams.values()} == {np.inf}
    assert {each.interval for each in full.streams.values()} == {np.inf}

    unpurged = make_pipeline(windows=(5, 5), join={"preset": "wjoin"}, aggregated=False)
    found = measured(unpurged, job(unpurged, 100, 0, join_inserted_rows_total=200.0))
    assert found is not None
    assert {each.until_closed for each in found.streams.values()} == {np.inf}


def test_too_little_to_measure() -> None:
    pipeline = closing()
    batches = job(pipeline, 100, 0, join_inserted_rows_total=200.0)

    assert measured(pipeline, []) is None
    assert measured(pipeline, batches[:1]) is None
    assert measured(pipeline, [batches[0], batches[0]]) is None  # no time passes
    assert measured(pipeline, job(pipeline, 0, 0)) is None  # no rows


def test_what_is_given_comes_before_what_is_measured() -> None:
    pipeline = closing()
    left, right = pipeline.sides
    known = JoinFigures({left: StreamFigures(1.0), right: StreamFigures(2.0, row_bytes=9)}, lag=7)

    found = with_given(pipeline, known, {"rate": {right: 50.0}, "until_closed": {left: 3.0}}, None)
    assert found is not None
    assert found.streams == {
        left: StreamFigures(1.0, until_closed=3.0),
        right: StreamFigures(50.0, row_bytes=9),
    }
    assert found.lag == 7
    assert found.given
    assert with_given(pipeline, known, {"rate": {}}, None) == known
    assert with_given(pipeline, known, {}, 2.0) == JoinFigures(known.streams, lag=2.0, given=True)
    assert with_given(pipeline, None, {"rate": {right: 50.0}}, None) is None
    with pytest.raises(ConfigError, match="'nobody' is no stream of the pipeline; there are"):
        with_given(pipeline, known, {"rate": {"nobody": 1.0}}, None)


def test_a_forecast_in_words_and_as_json() -> None:
    """Where the two streams close a key a second apart. JSON has no infinite number."""
    pipeline = closing((5, None))
    streams = dict.fromkeys(pipeline.sides, StreamFigures(100.0, 50.0, 2.0))
    found = forecast_join(pipeline, JoinFigures(streams, lag=1.0), buckets=1)

    text = "\n".join(found.lines())
    assert f"stream {pipeline.sides[0]}: 100.0 rows/s, a punctuation every 50.0 rows" in text
    assert "pwjoin, window 2.5 s and none" in text
    (shj,) = (line for line in found.lines() if line.endswith("shj"))
    assert shj.split() == ["grows", "grows", "0.0", "0.0", "never", "shj"]
    facts = found.facts["by_preset"]
    assert facts["shj"][1.0]["left"]["rows"] is None
    assert facts["pjoin"][1.0]["announced_after"] == pytest.approx(1.5, rel=0.05)  # and half a batch


def test_a_forecast_for_the_sidecar() -> None:
    """It has the file's own windows alone, and says what it was made from. JSON has no infinite number."""
    pipeline = closing((5, 5))
    streams = {name: StreamFigures(100.0, until_closed=2.0) for name in pipeline.sides}
    found = forecast_join(pipeline, JoinFigures(streams, measured_until=7.0), buckets=1)

    told = found.for_sidecar()
    assert (told.preset, told.windows, told.purge_every) == (Preset.AUTO, [5, 5], 1)
    assert (told.measured_until, told.given, told.lag) == (7.0, False, None)
    assert [(each.stream, each.rate, each.interval) for each in told.streams] == [
        (name, 100.0, None) for name in pipeline.sides
    ]
    by_preset = {each.preset: each for each in told.by_preset}
    assert list(by_preset) == list(Preset)
    own = found.by_preset[Preset.AUTO][1.0]
    assert by_preset[Preset.AUTO].frees == ["punctuations", "windows"]
    assert [each.rows for each in by_preset[Preset.AUTO].streams] == [own.left.rows, own.right.rows]
    assert by_preset[Preset.AUTO].announced_after == own.announced_after
    assert by_preset[Preset.PJOIN].frees == ["punctuations"]
    assert by_preset[Preset.SHJ].frees == []
    assert [each.bytes for each in by_preset[Preset.SHJ].streams] == [None, None]

    without = forecast_join(closing((None, None)), JoinFigures(streams), buckets=1).for_sidecar()
    assert {each.preset: each.frees for each in without.by_preset}[Preset.WJOIN] == []
