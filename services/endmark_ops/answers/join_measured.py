"""The state of the stream join as the last batches measured it, to hold a forecast against."""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.control.ops_database.forecasts import StreamState
from endmark.operators.stream_join.presets import Preset
from endmark.planning.join_state import measured_state
from endmark_ops.answers.models import MeasuredJoin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.control.description import Description
    from endmark.control.ops_database.batches import FinishedBatch
    from endmark.control.ops_database.forecasts import JoinStateForecast


def measured_join(
    described: Description, forecast: JoinStateForecast | None, batches: Sequence[FinishedBatch]
) -> MeasuredJoin | None:
    """Average the join's state over batches from which the forecast was not made.

    Args:
        described: the description of the pipeline by its latest job.
        forecast: the forecast to hold it against; `None` if none is stored.
        batches: the last batches, oldest first.

    Returns:
        `None` without two such batches, or without a join.
    """
    join, names = described.fields.get(described.join or ""), list(described.windows)
    if join is None:
        return None
    known = None if forecast is None else forecast.measured_until
    later = [batch for batch in batches if known is None or batch.committed_at > known]
    found = measured_state(names, Preset(join["preset"]), later)
    if found is None:
        return None
    return MeasuredJoin(
        batches=found.batches,
        preset=join["preset"],
        windows=list(described.windows.values()),
        streams=[StreamState(stream=name, rows=found.rows[name], bytes=found.bytes[name]) for name in names],
        announced_after=found.announced_after,
    )
