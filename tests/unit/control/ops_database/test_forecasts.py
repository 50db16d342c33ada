"""Stored forecasts."""

from __future__ import annotations

from endmark.control.ops_database import forecasts
from endmark.control.ops_database.database import OpsDatabase
from support.ops_job import forecast_of, join_forecast_of


def test_a_forecast_takes_the_place_of_the_one_before(ops: OpsDatabase) -> None:
    assert forecasts.newest_forecasts(ops, "auction") == ([], None)
    for forecast in (forecast_of("sellers", fastest=1.0), newest := forecast_of("sellers")):
        forecasts.store(ops, "auction", forecast)
    # A relation may have the name under which the join's forecast is stored.
    forecasts.store(ops, "auction", named := forecast_of("join"))
    for rows in (1.0, 20_000.0):
        forecasts.store(ops, "auction", join := join_forecast_of(rows))

    assert forecasts.newest_forecasts(ops, "auction") == ([named, newest], join)
