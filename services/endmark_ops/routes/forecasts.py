"""The route of `endmark plan`'s forecasts."""

from fastapi import APIRouter

from endmark_ops.models import Forecasts
from endmark_ops.routes.dependencies import UNREADABLE, Source

router = APIRouter(prefix="/api", tags=["api"])


@router.get("/forecasts", responses=UNREADABLE)
def forecasts(source: Source) -> Forecasts:
    """List the forecasts that `endmark plan --ops-url` has stored, sorted by relation."""
    return Forecasts(forecasts=list(source.forecasts()))
