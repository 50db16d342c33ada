"""Checks of the topics that a job reads, before its query starts."""

from __future__ import annotations

import re

import pytest

from endmark.driver.topics import partition_counts
from endmark.errors import MissingPartError


def test_a_broker_that_does_not_answer_is_named(free_port: int) -> None:
    """The error names the address and says what to do; the stack's test sees it on the command line."""
    says = re.escape(
        f"no Kafka broker answers at 127.0.0.1:{free_port}; start it, correct --bootstrap, or add kafka.tls"
    )
    with pytest.raises(MissingPartError, match=says):
        partition_counts(f"127.0.0.1:{free_port}", ["bids"], deadline_seconds=0.1)
