"""A Prometheus server of the test's own, with the rules that are shipped."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode

import httpx
import yaml

from endmark.embedded.ports import free_port
from endmark.embedded.process import ManagedProcess

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
_DURATION = re.compile(r"(?<![\w.])(\d+)([smh])\b")
_MILLISECONDS = {"s": 1_000, "m": 60_000, "h": 3_600_000}


def sooner(rules: str, times: int) -> str:
    """Rules whose durations are so many times shorter."""
    return _DURATION.sub(lambda found: f"{int(found[1]) * _MILLISECONDS[found[2]] // times}ms", rules)


class Prometheus:
    """Scrapes one sidecar, and evaluates the rules, each second.

    Args:
        directory: of its configuration and data.
        rules: the text of a rule file.
        target: the sidecar's URL.
    """

    def __init__(self, directory: Path, rules: str, target: str) -> None:
        directory.mkdir()
        configuration = yaml.safe_load((ROOT / "infra/prometheus.yml").read_text())
        configuration["scrape_configs"][0]["static_configs"] = [
            {"targets": [target.removeprefix("http://").rstrip("/")]}
        ]
        configuration["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        (directory / "prometheus.yml").write_text(yaml.safe_dump(configuration))
        (directory / "alerts.yml").write_text(rules)
        address = f"127.0.0.1:{free_port()}"
        self._url = f"http://{address}/api/v1"
        command = ["prometheus", f"--config.file={directory / 'prometheus.yml'}"]
        command += [f"--storage.tsdb.path={directory / 'data'}", f"--web.listen-address={address}"]
        self._process = ManagedProcess("prometheus", command, directory / "prometheus.log")
        self._process.wait_ready(self._answers, 60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stop()

    def firing(self) -> set[str]:
        """The names of the alerts that fire now."""
        return {
            each["labels"]["alertname"] for each in self._ask("alerts")["alerts"] if each["state"] == "firing"
        }

    def values(self, query: str) -> list[float]:
        """Return the present value of an expression, one for each series."""
        found = self._ask(f"query?{urlencode({'query': query})}")["result"]
        return [float(each["value"][1]) for each in found]

    def seconds_until(self, condition: Callable[[], bool], most: float = 480.0) -> float:
        """Wait for something; returns how long it took."""
        began = time.monotonic()
        while not condition():
            assert time.monotonic() - began < most, f"waited in vain; firing: {self.firing()}"
            time.sleep(0.2)
        return time.monotonic() - began

    def _answers(self) -> bool:
        try:
            self._ask("alerts")
        except httpx.HTTPError:
            return False
        return True

    def _ask(self, what: str) -> Any:
        answer = httpx.get(f"{self._url}/{what}", timeout=60)
        answer.raise_for_status()
        return answer.json()["data"]
