"""Limits that every world of the oracle reaches."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from endmark.operators.stream_join import closed_keys
from endmark.verify.judge import broken_promises


@pytest.fixture(scope="module", autouse=True)
def _recent() -> Iterator[None]:
    """The place of a promise that names a key is forgotten after three records: worlds have few."""
    with patch.object(closed_keys, "RECENT", 3), patch.object(broken_promises, "RECENT", 3):
        yield
