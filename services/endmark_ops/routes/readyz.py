"""The readiness probe, which succeeds while the latest run is running and its last batch is fresh."""

from fastapi import APIRouter, Response

from endmark_ops.health import reasons_not_ready
from endmark_ops.models import Readiness
from endmark_ops.routes.dependencies import Source, StaleSeconds
from endmark_ops.source import UnreadableError

router = APIRouter(tags=["probes"])


@router.get("/readyz", responses={503: {"model": Readiness}})
def readyz(source: Source, stale_seconds: StaleSeconds, response: Response) -> Readiness:
    """Answer 200 while the latest run is running and its last batch is fresh, else 503 with the reasons."""
    try:
        reasons = reasons_not_ready(source.snapshot(), stale_seconds)
    except UnreadableError as error:
        reasons = [error.for_clients()]
    if reasons:
        response.status_code = 503
    return Readiness(ready=not reasons, reasons=reasons)
