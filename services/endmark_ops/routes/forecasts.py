"""The route of `endmark plan`'s forecasts, and of what was measured since."""

from fastapi import APIRouter

from endmark.planning.join_state import BATCHES
from endmark_ops.answers.join_measured import measured_join
from endmark_ops.answers.models import Forecasts
from endmark_ops.routes.dependencies import OF_PIPELINE, UNREADABLE, Source

router = APIRouter(prefix=OF_PIPELINE, tags=["api"])


@router.get("/forecasts", responses=UNREADABLE)
def forecasts(source: Source) -> Forecasts:
    """Return the forecasts that `endmark plan --ops-url` has stored, and the measured state of the join."""
    stored, described = source.forecasts(), source.description()
    batches = () if described is None else source.batches(-1, BATCHES)
    measured = None if described is None else measured_join(described, stored.join, batches)
    return Forecasts(lookups=stored.lookups, join=stored.join, join_measured=measured)
