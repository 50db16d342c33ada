"""The sidecar's HTTP application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.middleware.trustedhost import TrustedHostMiddleware

from endmark_ops.routes import batches, dashboard, healthz, metrics, readyz, status
from endmark_ops.security import HEADERS, TRUSTED_HOSTS, SecurityHeaders
from endmark_ops.source import OpsSource, UnreadableError

STATIC = Path(__file__).parent / "static"


def create_app(
    ops_url: str, pipeline: str, stale_seconds: float = 30, known_as: Sequence[str] = ()
) -> FastAPI:
    """Build the application over the ops database at an SQLAlchemy URL.

    The database need not be reachable yet; until it is, everything but `/healthz` answers 503.

    Args:
        stale_seconds: age of the last batch above which a running job counts as stale.
        known_as: host names that requests may be addressed to, besides those of loopback.

    Raises:
        ConfigError: `ops_url` is no database URL.
    """
    source = OpsSource(ops_url, pipeline)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        source.close()

    # The documentation views load scripts from elsewhere, which our headers forbid; the schema stays.
    app = FastAPI(
        title="endmark ops", version=version("endmark"), docs_url=None, redoc_url=None, lifespan=lifespan
    )
    app.state.source = source
    app.state.stale_seconds = stale_seconds
    app.add_exception_handler(UnreadableError, _unreadable)
    app.add_exception_handler(Exception, _crashed)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*TRUSTED_HOSTS, *known_as])
    app.add_middleware(SecurityHeaders)
    for route in (healthz, readyz, metrics, status, batches, dashboard):
        app.include_router(route.router)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    return app


def _unreadable(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, status_code=503)


def _crashed(_request: Request, _error: Exception) -> JSONResponse:
    # This answer is sent from outside all middleware, so it brings the headers itself.
    detail = "the sidecar failed to answer; its log has the cause"
    return JSONResponse({"detail": detail}, status_code=500, headers=HEADERS)
