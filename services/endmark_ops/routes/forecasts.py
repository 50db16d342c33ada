"""What lookups would yield with more memory or less, as `endmark plan` has predicted."""

from fastapi import APIRouter

from endmark_ops.models import Forecasts
from endmark_ops.routes.dependencies import UNREADABLE, Source

router = APIRouter(prefix="/api", tags=["api"])


@router.get("/forecasts", responses=UNREADABLE)
def forecasts(source: Source) -> Forecasts:
    """Of those relations that `endmark plan` was told of the ops database for."""
    return Forecasts(forecasts=list(source.forecasts()))
