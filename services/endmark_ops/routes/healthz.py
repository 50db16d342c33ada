"""The liveness probe, which answers as long as the process runs, even if all else is broken."""

from fastapi import APIRouter

from endmark_ops.answers.models import Alive

router = APIRouter(tags=["probes"])


# It runs on the event loop, so that threads that wait for a database cannot hold it up.
@router.get("/healthz")
async def healthz() -> Alive:
    return Alive()
