"""The job's news as server-sent events."""

from collections.abc import AsyncIterator

from fastapi import APIRouter
from fastapi.sse import EventSourceResponse

from endmark_ops.models import News, Problem
from endmark_ops.routes.dependencies import Listening

router = APIRouter(prefix="/api", tags=["api"])
_FULL = {"model": Problem, "description": "As many listen as may, or the sidecar is about to end"}


@router.get("/events", response_class=EventSourceResponse, responses={503: _FULL})
async def events(feed: Listening) -> AsyncIterator[News]:
    """Server-sent events: `news` at once, and whenever there is any.

    While the ops database cannot be read there is a `problem`, with a `detail`. An event's id is that of the
    last batch: what a client has missed is at `/api/batches?after=ID`. The stream ends after some minutes,
    and is to be asked for again.
    """
    async for event in feed.listen():
        yield event  # type: ignore[misc]  # News as it is sent, in text that all who listen share
