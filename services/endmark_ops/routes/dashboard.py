"""The routes of the dashboard: the list of pipelines, and the views of one pipeline."""

from pathlib import Path
from urllib.parse import quote

from fastapi import APIRouter
from fastapi.responses import FileResponse, RedirectResponse

router = APIRouter(include_in_schema=False)

_STATIC = Path(__file__).parent.parent / "static"


@router.get("/")
async def pipelines() -> FileResponse:
    return FileResponse(_STATIC / "index.html", media_type="text/html")


@router.get("/pipelines/{pipeline}")
async def without_slash(pipeline: str) -> RedirectResponse:
    """Redirect to the views by a relative address, since behind a proxy the sidecar does not know its own."""
    return RedirectResponse(f"./{quote(pipeline, safe='')}/")


@router.get("/pipelines/{pipeline}/")
async def pipeline() -> FileResponse:
    """Send the views of a pipeline. They are the same for all, and ask for the figures of their own name."""
    return FileResponse(_STATIC / "pipeline.html", media_type="text/html")
