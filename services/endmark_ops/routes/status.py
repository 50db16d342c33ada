"""The route that shows the pipeline's state, its last batch and its totals."""

from fastapi import APIRouter

from endmark_ops.answers.models import Status
from endmark_ops.answers.status import status_of
from endmark_ops.routes.dependencies import OF_PIPELINE, UNREADABLE, Source, StaleSeconds

router = APIRouter(prefix=OF_PIPELINE, tags=["api"])


@router.get("/status", responses=UNREADABLE)
def status(source: Source, stale_seconds: StaleSeconds) -> Status:
    return status_of(source.pipeline, source.snapshot(), stale_seconds)
