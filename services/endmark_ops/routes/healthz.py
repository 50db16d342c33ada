"""Liveness: the process answers, whatever else is broken."""

from fastapi import APIRouter

from endmark_ops.models import Alive

router = APIRouter(tags=["probes"])


# On the event loop, so that not even threads that wait for a database can hold it up.
@router.get("/healthz")
async def healthz() -> Alive:
    return Alive()
