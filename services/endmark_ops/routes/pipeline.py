"""The route that describes the pipeline."""

from fastapi import APIRouter

from endmark_ops.answers.models import PipelineAnswer, PipelineInfo, StreamInfo
from endmark_ops.routes.dependencies import OF_PIPELINE, UNREADABLE, Source

_TOLD = set(PipelineInfo.model_fields) - {"streams"}

router = APIRouter(prefix=OF_PIPELINE, tags=["api"])


@router.get("", responses=UNREADABLE)
def pipeline(source: Source) -> PipelineAnswer:
    """Describe the pipeline of the latest job: its streams, its steps, and where rows are written."""
    found = source.description()
    if found is None:
        return PipelineAnswer(pipeline=None)
    streams = [StreamInfo(name=name, topic=topic) for name, topic in found.topics.items()]
    return PipelineAnswer(pipeline=PipelineInfo(streams=streams, **found.model_dump(include=_TOLD)))
