"""The route that lists batches, as points for charts."""

from typing import Annotated

from fastapi import APIRouter, Query

from endmark_ops.answers.models import Batches
from endmark_ops.answers.status import point_of
from endmark_ops.routes.dependencies import OF_PIPELINE, UNREADABLE, OneOfBatches, Source

router = APIRouter(prefix=OF_PIPELINE, tags=["api"])


@router.get("/batches", responses=UNREADABLE)
def batches(
    source: Source,
    _: OneOfBatches,
    after: Annotated[int, Query(ge=-1, lt=2**63, description="only batches with a greater id")] = -1,
    limit: Annotated[int, Query(ge=1, le=1000, description="the most batches; the newest ones count")] = 300,
) -> Batches:
    """List the pipeline's batches, oldest first."""
    return Batches(batches=[point_of(batch) for batch in source.batches(after, limit)])
