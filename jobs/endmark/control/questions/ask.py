"""A question of what keeps a key open, from whoever asks to the job and back.

A question is a control record. The bucket that has the key answers it from its state when the batch is over,
and the driver stores the answer in the ops database.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from endmark.errors import EndmarkError
from endmark.kafka.sending import send

if TYPE_CHECKING:
    from endmark.control.ops_database.database import OpsDatabase
    from endmark.kafka.cluster import ClusterOrAddress
    from endmark.wire.control import Question

_LOOK_SECONDS = 0.2


def ask(
    ops: OpsDatabase,
    bootstrap: ClusterOrAddress,
    pipeline: str,
    topic: str,
    question: Question,
    patience: float,
) -> dict[str, Any]:
    """Ask the running job, and wait for its answer.

    Args:
        ops: the ops database.
        bootstrap: the Kafka cluster, or the addresses of its brokers.
        pipeline: the pipeline's name.
        topic: its control topic.
        question: the question.
        patience: the most seconds to wait.

    Returns:
        The `batch_id` whose end the answer is about, and the `answers`, one for each step that has the key.

    Raises:
        EndmarkError: no job runs, or it has not answered in time.
        UnreachableError: the broker does not answer.
    """
    if not ops.runs.is_running(pipeline):
        raise EndmarkError(
            f"no job of {pipeline} runs, and its state is known to the job alone; start it, and ask again"
        )
    offset = send(bootstrap, topic, question.written())
    until = time.monotonic() + patience
    while (found := ops.answers.find(pipeline, 0, offset)) is None:
        if time.monotonic() > until:
            raise EndmarkError(
                f"the job of {pipeline} has not answered in {patience:.0f} s; it answers when its next batch "
                "is over: see `endmark status`, or wait longer"
            )
        time.sleep(_LOOK_SECONDS)
    return found
