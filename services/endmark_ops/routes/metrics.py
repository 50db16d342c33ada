"""The route that Prometheus scrapes."""

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from endmark_ops.answers.exporter import LoginCollector, OpsCollector
from endmark_ops.answers.models import Problem
from endmark_ops.routes.dependencies import AllSources

router = APIRouter(tags=["metrics"])


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {}}},
        503: {"model": Problem, "description": "The ops database cannot be read"},
    },
)
def metrics(sources: AllSources, request: Request) -> Response:
    """Publish the figures of all pipelines, with the label `pipeline`."""
    try:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
    except (TypeError, ValueError):  # it asks for a version that is no number
        encode, content_type = choose_encoder("")
    registry = CollectorRegistry()
    registry.register(OpsCollector(sources, request.app.state.durations))
    registry.register(LoginCollector(request.app.state.failed_logins))
    return Response(encode(registry), headers={"Content-Type": content_type})
