"""The stack of docker-compose.yml as the container test sees it: from outside, as its users do."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import KafkaError

from endmark.kafka.cluster import KafkaCluster, Login, Tls, cluster_of
from endmark.metrics import parse

ROOT = Path(__file__).parents[2]
_OPS = "http://127.0.0.1:8080"
_API = f"{_OPS}/api/pipelines/auction"
BROKER = "127.0.0.1:9092"
_SECRETS = ROOT / "infra/secrets"
_TOPICS = ("items", "bids")
_FILES = ("docker-compose.yml", "tests/containers/compose.yml")
_COMPOSE = ["docker-compose", "--project-name=endmark-test", *(f"--file={ROOT / name}" for name in _FILES)]


def cluster(user: str) -> KafkaCluster:
    """Return the stack's Kafka for one of its users, as this machine reaches it."""
    password = (_SECRETS / f"kafka_{user}.txt").read_text()
    return KafkaCluster(BROKER, Tls(_SECRETS / "kafka_ca.pem"), Login("SCRAM-SHA-512", user, password))


class Stack:
    """Commands to the stack, and what it says of itself."""

    def compose(self, *words: str) -> None:
        subprocess.run([*_COMPOSE, *words], cwd=ROOT, check=True)

    def execute(self, block: str) -> None:
        """Run commands of the runbook on this stack."""
        ours = f'docker() {{ shift; {shlex.join(_COMPOSE)} "$@"; }}'
        command = ["bash", "-euo", "pipefail", "-c", f"{ours}\n{block}"]
        subprocess.run(command, cwd=ROOT, check=True)

    def build(self) -> None:
        # The stand-ins are made of the job's image.
        self.compose("build", "--quiet", "job", "ops")
        self.compose("build", "--quiet", "broker", "mysql")

    def containers(self, service: str) -> list[dict[str, Any]]:
        """Return the engine's descriptions of a service's containers, ended ones included."""
        done = subprocess.run(
            [*_COMPOSE, "ps", "--all", "--quiet", service],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        found = done.stdout.split()
        if not found:
            return []
        inspected = subprocess.run(["docker", "inspect", *found], check=True, capture_output=True, text=True)
        return list(json.loads(inspected.stdout))

    def crash(self, service: str) -> None:
        """Kill a container's first process, as the kernel would, without a word to the engine."""
        os.kill(self.containers(service)[0]["State"]["Pid"], signal.SIGKILL)

    def status(self) -> dict[str, Any]:
        """Return the sidecar's status; it is empty while the sidecar does not answer."""
        try:
            answer = httpx.get(f"{_API}/status", timeout=10)
        except httpx.TransportError:
            return {}
        return dict(answer.json()) if answer.status_code == httpx.codes.OK else {}

    def batch(self) -> int:
        """The batch committed last, or -1."""
        last = self.status().get("last_batch")
        return int(last["batch_id"]) if last else -1

    def total(self, name: str, **labels: str) -> float:
        """A metric's total over all its series that have these labels."""
        totals = self.status().get("totals", [])
        samples = (sample for total in totals if total["name"] == name for sample in total["samples"])
        return sum(float(each["value"]) for each in samples if labels.items() <= each["labels"].items())

    def most(self, name: str) -> float:
        """The greatest value of a gauge, over all its series, that any batch has reported."""
        answer = httpx.get(f"{_API}/batches", params={"after": -1, "limit": 1_000}, timeout=60)
        answer.raise_for_status()
        batches: list[dict[str, dict[str, float]]] = answer.json()["batches"]
        return max(
            sum(value for key, value in batch["samples"].items() if parse(key)[0] == name)
            for batch in batches
        )

    def records(self) -> int:
        """Records that the broker holds in the topics of both streams; 0 while it does not answer."""
        try:
            with closing(KafkaAdminClient(**cluster_of(cluster("operator")).python())) as admin:
                latest = {
                    TopicPartition(topic["name"], partition["partition_index"]): OffsetSpec.LATEST
                    for topic in admin.describe_topics(list(_TOPICS))
                    for partition in topic["partitions"]
                }
                return sum(end.offset for end in admin.list_partition_offsets(latest).values())
        except KafkaError as error:
            if not error.retriable:
                raise
            return 0

    def wait(self, what: str, condition: Callable[[], bool], seconds: float) -> None:
        """Return once `condition` holds; else show what the containers said and raise."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                self.compose("ps")
                self.compose("logs", "--tail=40")
                raise AssertionError(f"{what}: not after {seconds:.0f} s")
            time.sleep(1)
