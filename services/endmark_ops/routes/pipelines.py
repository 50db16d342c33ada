"""The route that lists all pipelines of the ops database."""

from fastapi import APIRouter

from endmark_ops.answers.models import Pipelines, Problem
from endmark_ops.answers.overview import overview
from endmark_ops.routes.dependencies import AllSources, StaleSeconds

router = APIRouter(prefix="/api/pipelines", tags=["api"])


@router.get("", responses={503: {"model": Problem, "description": "The ops database cannot be read"}})
def pipelines(sources: AllSources, stale_seconds: StaleSeconds) -> Pipelines:
    """List the pipelines that the caller may see, sorted by name."""
    return Pipelines(pipelines=[overview(source, stale_seconds) for source in sources])
