"""What `endmark plan` has predicted, as the sidecar gives it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from endmark.control import forecasts
from endmark.control.database import OpsDatabase
from endmark_ops.app import create_app
from support.ops_client import OpsClient
from support.ops_job import PIPELINE, forecast_of


def test_forecasts_of_each_relation(tmp_path: Path) -> None:
    """The newest, by name, and of this pipeline alone."""
    url = f"sqlite:///{tmp_path / 'ops.db'}"
    client = OpsClient(create_app(url, PIPELINE, shared_seconds=0))
    assert client.get("/api/forecasts").json() == {"forecasts": []}
    told = {name: forecast_of(name) for name in ("sellers", "ranks")}
    old = forecast_of("sellers", fastest=1.0)
    with closing(OpsDatabase(url)) as database:
        for each in (old, *told.values()):
            forecasts.store(database, PIPELINE, each)
        forecasts.store(database, "another", old)
    found = client.get("/api/forecasts").json()["forecasts"]
    assert found == [told["ranks"].model_dump(), told["sellers"].model_dump()]
    assert found[1]["by_memory"][0]["rates"]["hybrid"] > 1.0
