"""A job with one batch, as the sidecar's tests need it; some have a job of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.ops_job import Job, job_in


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    with job_in(tmp_path) as job:
        job.start()
        job.commit()
        yield job
