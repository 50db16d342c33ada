"""The route that sends the job's news as server-sent events."""

from collections.abc import AsyncIterator

from fastapi import APIRouter
from fastapi.sse import EventSourceResponse

from endmark_ops.answers.models import News, Problem
from endmark_ops.routes.dependencies import OF_PIPELINE, UNREADABLE, Listening

router = APIRouter(prefix=OF_PIPELINE, tags=["api"])
_FULL = {"model": Problem, "description": "No more listeners are allowed, or the sidecar is about to end"}


@router.get("/events", response_class=EventSourceResponse, responses={**UNREADABLE, 503: _FULL})
async def events(feed: Listening) -> AsyncIterator[News]:
    """Send server-sent events: `news` at once, and again whenever something has changed.

    While the ops database cannot be read, the event is a `problem` with a `detail`. The id of an event is the
    id of the last batch. A client gets the batches that it has missed from `batches?after=ID`. The
    stream ends after ten minutes, and the client then has to ask again.
    """
    async for event in feed.listen():
        yield event  # type: ignore[misc]  # News that is written already, once for all listeners
