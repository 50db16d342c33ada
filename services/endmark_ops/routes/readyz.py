"""The readiness probes, which succeed while latest runs are running and their last batches are fresh."""

from fastapi import APIRouter, Response

from endmark_ops.answers.health import reasons_not_ready
from endmark_ops.answers.models import Problem, Readiness
from endmark_ops.readers.source import UnreadableError
from endmark_ops.routes.dependencies import AllSources, Source, StaleSeconds

router = APIRouter(tags=["probes"])


@router.get("/readyz", responses={503: {"model": Readiness}})
def readyz(sources: AllSources, stale_seconds: StaleSeconds, response: Response) -> Readiness:
    """Answer 200 while all pipelines are ready, else 503 with the reasons, which begin with a pipeline."""
    try:
        found = list(sources)
        reasons = [
            f"{source.pipeline}: {reason}"
            for source in found
            for reason in reasons_not_ready(source.snapshot(), stale_seconds)
        ]
        reasons += [] if found else ["no run of any pipeline has started"]
    except UnreadableError as error:
        reasons = [error.for_clients()]
    return _answer(reasons, response)


@router.get(
    "/readyz/{pipeline}",
    responses={
        404: {"model": Problem, "description": "No pipeline has that name"},
        503: {"model": Readiness},
    },
)
def readyz_of_pipeline(source: Source, stale_seconds: StaleSeconds, response: Response) -> Readiness:
    """Answer 200 while the latest run is running and its last batch is fresh, else 503 with the reasons."""
    return _answer(reasons_not_ready(source.snapshot(), stale_seconds), response)


def _answer(reasons: list[str], response: Response) -> Readiness:
    if reasons:
        response.status_code = 503
    return Readiness(ready=not reasons, reasons=reasons)
