"""The sidecar's HTTP application: its routes, middleware and answers to errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles

from endmark.errors import MissingPartError
from endmark_ops.answers.durations import Durations
from endmark_ops.answers.feed import Feed, Feeds
from endmark_ops.answers.health import STALE_SECONDS
from endmark_ops.http.access import FailedLogins, Guard
from endmark_ops.http.heads import Heads
from endmark_ops.http.limits import STREAM_SECONDS, Limits
from endmark_ops.http.security import HEADERS, KnownHosts, SecurityHeaders, checked_names
from endmark_ops.http.shared_answers import SharedAnswers
from endmark_ops.openapi import document
from endmark_ops.reach import Reach
from endmark_ops.readers.lag import CachedEnds
from endmark_ops.readers.source import OpsReader, UnreadableError
from endmark_ops.readers.sources import Sources
from endmark_ops.routes import (
    batches,
    dashboard,
    dead_letters,
    events,
    forecasts,
    healthz,
    knobs,
    metrics,
    pipelines,
    readyz,
    status,
    what_ifs,
    why,
)
from endmark_ops.routes import (
    pipeline as described,
)
from endmark_ops.routes.dependencies import Refusal

STATIC = Path(__file__).parent / "static"
SHARED_SECONDS = 0.5  # most batches take longer, and nobody notices an age of half a second
# Every client asks for these again and again, so clients share the answers.
_SHARED = ("/metrics", "/api/pipelines(/[^/]+(/(status|batches|forecasts|what-ifs))?)?")
_PROBES = (healthz, readyz, metrics)
_ROUTES = (
    *_PROBES,
    pipelines,
    status,
    batches,
    events,
    forecasts,
    what_ifs,
    knobs,
    dead_letters,
    why,
    described,
    dashboard,
)


def create_app(
    ops_url: str,
    stale_seconds: float = STALE_SECONDS,
    known_as: Sequence[str] = (),
    reach: Reach = Reach(),  # noqa: B008  # frozen
    shared_seconds: float = SHARED_SECONDS,
    stream_seconds: float = STREAM_SECONDS,
) -> FastAPI:
    """Build the sidecar's application for all pipelines of an ops database.

    The ops database need not be reachable yet. Until it is, routes that read it answer 503, and streams of
    events say what the problem is.

    Args:
        ops_url: SQLAlchemy URL of the ops database.
        stale_seconds: age of the last batch, in seconds, above which a running job counts as stale.
        known_as: host names that requests may be addressed to, besides those of loopback.
        reach: the tokens that callers have, and the broker and tables that the sidecar may use.
        shared_seconds: greatest age, in seconds, of an answer that clients share; also the time between two
            reads of the ops database for streams of events.
        stream_seconds: seconds after which a stream of events ends, and its client has to ask again.

    Raises:
        ConfigError: SQLAlchemy does not know `ops_url`, its driver is not installed, or one of `known_as` is
            no host name.
    """
    ends = None if reach.bootstrap is None else CachedEnds(reach.bootstrap)
    reader = OpsReader(ops_url)
    sources = Sources(reader) if ends is None else Sources(reader, ends.latest)
    feeds = Feeds(lambda name: Feed(sources.of(name), stale_seconds, shared_seconds, stream_seconds))

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        feeds.close()
        reader.close()
        if ends is not None:
            ends.close()

    # FastAPI's views of the documentation load scripts from another host, which our headers forbid. Its
    # redirects to paths with or without a slash name the sidecar's own address, even behind a proxy.
    app = FastAPI(
        title="endmark ops",
        version=version("endmark"),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.sources = sources
    app.state.feeds = feeds
    app.state.durations = Durations()
    app.state.stale_seconds = stale_seconds
    app.state.reach = reach
    app.state.last_sent = {}
    app.openapi = lambda: document(app)  # type: ignore[method-assign]  # the way FastAPI's manual does it
    app.add_exception_handler(UnreadableError, _unreadable)
    app.add_exception_handler(MissingPartError, _missing)
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(Exception, _crashed)
    app.add_middleware(SharedAnswers, paths=_SHARED, seconds=shared_seconds)
    app.add_middleware(Heads)
    app.add_middleware(Limits)
    app.state.failed_logins = FailedLogins()
    app.add_middleware(Guard, tokens=reach.tokens, failed=app.state.failed_logins)
    app.add_middleware(KnownHosts, names=checked_names(known_as))
    app.add_middleware(SecurityHeaders)
    for route in _ROUTES:
        app.include_router(route.router)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    return app


def _unreadable(_request: Request, error: Exception) -> JSONResponse:
    detail = error.for_clients() if isinstance(error, UnreadableError) else ""
    return JSONResponse({"detail": detail}, status_code=503)


def _missing(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, status_code=503)


def _refused(_request: Request, refusal: Exception) -> JSONResponse:
    status = refusal.status if isinstance(refusal, Refusal) else 500
    return JSONResponse({"detail": str(refusal)}, status_code=status)


def _malformed(_request: Request, error: Exception) -> JSONResponse:
    # The answer leaves out the refused input, since not every value of it can be written as JSON.
    found = error.errors() if isinstance(error, RequestValidationError) else []
    detail = [{name: each[name] for name in ("loc", "msg", "type")} for each in found]
    return JSONResponse({"detail": detail}, status_code=422)


def _crashed(_request: Request, _error: Exception) -> JSONResponse:
    # Starlette sends this answer outside all middleware, so `SecurityHeaders` does not see it.
    detail = "the sidecar failed to answer; its log has the cause"
    return JSONResponse({"detail": detail}, status_code=500, headers=HEADERS)
