"""The stack of docker-compose.yml in real containers: `make test-compose`, as root.

Builds a base image and ours, and brings the stack up. Tries to turn a knob as each user. Takes the job away
while records come, and brings the stack down and up again: the job must go on from its checkpoint, and all
tables must be right. Without --quick it then does so with every part killed in turn, and keeps what it saw.
It starts an engine of its own and removes it.
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from containers.base_image import make_base_image
from containers.engine import engine
from containers.stack import BROKER, ROOT, Stack, cluster
from endmark.errors import EndmarkError
from endmark.kafka.cluster import ClusterOrAddress, KafkaCluster
from endmark.kafka.sending import send
from endmark.wire.control import Turn
from support.faults import Faults, step
from support.runbook import blocks

# Generous, for machines of two cores that do something else beside.
_UP_SECONDS = 400.0
_BATCH_SECONDS = 300.0
_DONE_SECONDS = 600.0
_LEFT_RECORDS = 8_000  # whose bids are on more pages than a batch has the time to read
# What is killed, in turn, by its service.
_KILLED = {
    "job": ("the job", "The engine starts it again, and it goes on from its checkpoint."),
    "spark-worker": (
        "one of two workers",
        "Spark repeats its executor's tasks, with state from the checkpoint. The engine starts it again.",
    ),
    "mysql": ("the database", "The lookup tries again until it is back."),
}


@contextmanager
def up(stack: Stack) -> Iterator[None]:
    """A stack with new volumes; all of it is removed afterwards."""
    try:
        with step("up"):
            stack.compose("up", "--detach")
            stack.wait("rows in the tables", lambda: stack.total("join_results_total") > 0, _UP_SECONDS)
        yield
    finally:
        stack.compose("down", "--volumes")


def moves_on(stack: Stack) -> None:
    """The job commits batches that began after this call."""
    before = stack.batch()
    stack.wait("two more batches", lambda: stack.batch() >= before + 2, _BATCH_SECONDS)


def all_done(stack: Stack) -> None:
    stack.compose("stop", "feed")
    stack.wait("all records read", lambda: stack.total("records_total") == stack.records() > 0, _DONE_SECONDS)
    waiting = "lookup_pending_rows", "lookup_held_rows"
    stack.wait("no row that waits", lambda: sum(map(stack.total, waiting)) == 0, _DONE_SECONDS)
    assert stack.total("groups_closed_total") > 0


def verified(stack: Stack) -> None:
    """The tables hold what a recomputation says, to the last row; `run` fails otherwise."""
    stack.compose("stop", "job")
    stack.compose("run", "--rm", "verify")


def may_turn(kafka: ClusterOrAddress) -> bool:
    """Return whether a client on this machine may turn a knob."""
    try:
        send(kafka, "auction-control", Turn("batch.records", 20_000, "test").written())
    except EndmarkError as error:
        print(f"refused: {error}", flush=True)
        return False
    return True


def test_rights() -> None:
    """The sidecar's user turns knobs. The feed's does not, and nobody does anything without a login."""
    assert may_turn(cluster("operator"))
    assert not may_turn(cluster("feed"))
    assert not may_turn(KafkaCluster(BROKER, cluster("feed").tls))
    assert not may_turn(BROKER)


def test_down_and_up(stack: Stack, faults: Faults) -> None:
    """Records that came while the job was away are read when the stack is up again."""
    with up(stack):
        test_rights()
        with faults.survived(
            "everything, by `stop job`, `down`", "After `up` the job reads what came meanwhile."
        ):
            stack.compose("stop", "job")
            before, read = stack.batch(), stack.total("records_total")
            left = read + _LEFT_RECORDS
            stack.wait("records that are left", lambda: stack.records() > left, _BATCH_SECONDS)
            stack.compose("down")
            stack.compose("up", "--detach")
            all_done(stack)
            assert stack.batch() > before
            # A job that had begun anew would have written the batches of these numbers again.
            assert stack.total("records_total") > read
            # HYBRIDJOIN reads pages, and bids wait for theirs in the batch that finds what is left.
            assert stack.total("lookup_reads_total", by="page") > 0
            assert stack.total("lookup_reads_total", by="list") == 0
            assert stack.most("lookup_pending_rows") > 0
        with step("verify"):
            verified(stack)


def test_every_part_killed(stack: Stack, faults: Faults) -> None:
    """The engine restarts what dies, and no record is lost or doubled. The broker is last: the feed may not
    outlast it."""
    with up(stack):
        for service, (part, seen) in _KILLED.items():
            with faults.survived(part, seen):
                stack.crash(service)
                moves_on(stack)
        [rotate_secret] = blocks(compose=True)
        with faults.survived("Spark's secret, as by the runbook", "Job, workers and master have another."):
            stack.execute(rotate_secret)
            moves_on(stack)
        with faults.survived("the broker", "Once it is back, all that it holds is read."):
            stack.crash("broker")
            all_done(stack)
        with step("verify"):
            verified(stack)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="kill nothing")
    quick = parser.parse_args().quick
    subprocess.run([ROOT / "infra/make-secrets.sh"], check=True)
    stack = Stack()
    faults = Faults("compose_faults")
    with engine() as directory:
        with step("base image"):
            make_base_image(directory)
        with step("images"):
            stack.build()
        test_down_and_up(stack, faults)
        if not quick:
            test_every_part_killed(stack, faults)
            faults.keep()
    print("the stack is as it should be")


if __name__ == "__main__":
    main()
