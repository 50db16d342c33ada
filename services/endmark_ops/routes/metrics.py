"""The route that Prometheus scrapes."""

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from endmark_ops.exporter import LoginCollector, OpsCollector
from endmark_ops.routes.dependencies import UNREADABLE, Source

router = APIRouter(tags=["metrics"])


@router.get(
    "/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}, **UNREADABLE}
)
def metrics(source: Source, request: Request) -> Response:
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    registry = CollectorRegistry()
    registry.register(OpsCollector(source))
    registry.register(LoginCollector(source.pipeline, request.app.state.failed_logins))
    return Response(encode(registry), headers={"Content-Type": content_type})
