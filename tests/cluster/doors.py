"""Attacks on a cluster by somebody without its secret: each of them is tried and must fail."""

from __future__ import annotations

import urllib.error
import urllib.request
from contextlib import suppress
from typing import TYPE_CHECKING

from endmark.embedded.ports import listens

if TYPE_CHECKING:
    from cluster.standalone import Cluster

_SECONDS = 120.0


def test_no_submission_by_rest(cluster: Cluster) -> None:
    """The REST server has no authentication, so it must not be there."""
    assert not listens(cluster.rest_port), "the master takes submissions by REST"


def test_no_end_by_web_page(cluster: Cluster) -> None:
    """The master's page has no users, so its kill links must not be there."""
    before = _apps(cluster)
    assert len(before) == 1
    kill = f"{cluster.page}/app/kill/?id={before[0]}&terminate=true"
    with suppress(urllib.error.HTTPError):
        urllib.request.urlopen(urllib.request.Request(kill, method="POST"), timeout=_SECONDS).close()  # noqa: S310
    assert _apps(cluster) == before, "the job was ended by HTTP"


def test_no_worker_without_the_secret(cluster: Cluster) -> None:
    """A worker would be handed the jobs' code and secrets."""
    before = len(cluster.status()["workers"])
    stranger = cluster.start_stranger()

    def joined() -> bool:
        return len(cluster.status()["workers"]) > before

    def refused() -> bool:
        return "Failed to connect to master" in stranger.log.read_text()

    stranger.wait_ready(lambda: joined() or refused(), _SECONDS)
    assert not joined(), "a worker joined with another secret"
    stranger.kill()


def _apps(cluster: Cluster) -> list[str]:
    return [app["id"] for app in cluster.status()["activeapps"]]
