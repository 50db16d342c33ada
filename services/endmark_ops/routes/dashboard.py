"""The route of the dashboard, the sidecar's only view."""

from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse

router = APIRouter(include_in_schema=False)

_VIEW = Path(__file__).parent.parent / "static" / "index.html"


@router.get("/")
async def dashboard() -> FileResponse:
    return FileResponse(_VIEW, media_type="text/html")
