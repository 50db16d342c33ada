"""Dependencies that routes share, and the refusals that they answer with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any, cast

from fastapi import Depends, Request
from fastapi import Path as InPath

from endmark.control.description import Description
from endmark.kafka.cluster import ClusterOrAddress
from endmark.pipeline.fields import PIPELINE_NAME
from endmark.storage import Location
from endmark_ops.answers.feed import Feed, Feeds, FullError
from endmark_ops.answers.models import Problem
from endmark_ops.http.access import CALLER, VISIBLE
from endmark_ops.reach import Reach
from endmark_ops.readers.source import OpsSource
from endmark_ops.readers.sources import Sources

OF_PIPELINE = "/api/pipelines/{pipeline}"  # the beginning of all paths of one pipeline
UNREADABLE: dict[int | str, dict[str, Any]] = {
    404: {"model": Problem, "description": "No pipeline has that name"},
    503: {"model": Problem, "description": "The ops database cannot be read"},
}
REFUSED: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "Something in the request is not valid; the text says what"},
    404: {"model": Problem, "description": "Nothing has that name"},
    409: {"model": Problem, "description": "This cannot be done now; the text says why"},
    503: {"model": Problem, "description": "The ops database or the broker does not answer"},
}


class Refusal(Exception):  # noqa: N818  # not a failure
    """A refusal of a request, with an HTTP status and a text that says why."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


@dataclass(frozen=True)
class Who:
    """The caller of a request that writes; `token` is the name of its token."""

    token: str

    def named(self, by: str | None) -> str:
        """Return the name for audits, which has the token's name also if `by` is given."""
        return self.token if by is None else f"{by} ({self.token})"


Pipeline = Annotated[
    str, InPath(pattern=f"^{PIPELINE_NAME}$", description="the pipeline's name, such as `orders`")
]


def _sources(request: Request) -> Sources:
    found = cast(Sources, request.app.state.sources)
    return found.only(getattr(request.state, VISIBLE, None))


def _source(request: Request, pipeline: Pipeline) -> OpsSource:
    known = _sources(request)
    if pipeline not in (names := known.names()):
        there = f"there are {', '.join(names)}" if names else "no job has started yet"
        raise Refusal(404, f"no pipeline is named {pipeline}; {there}")
    return known.of(pipeline)


Source = Annotated[OpsSource, Depends(_source)]


def _stale_seconds(request: Request) -> float:
    return cast(float, request.app.state.stale_seconds)


def _caller(request: Request) -> Who:
    return Who(getattr(request.state, CALLER))


def _described(source: Source) -> Description:
    found = source.description()
    if found is None:
        raise Refusal(409, "no job has described this pipeline yet; start one first")
    return found


def _reach(request: Request) -> Reach:
    return cast(Reach, request.app.state.reach)


def _broker(request: Request) -> ClusterOrAddress:
    if (bootstrap := _reach(request).bootstrap) is None:
        raise Refusal(409, "the sidecar knows no broker; start it with --bootstrap")
    return bootstrap


def _warehouse(request: Request, source: Source) -> Location:
    if (warehouse := _reach(request).warehouse_of(source.pipeline)) is None:
        raise Refusal(409, "the sidecar knows no tables; start it with --warehouse")
    return warehouse


async def _listening(request: Request, source: Source) -> AsyncIterator[Feed]:
    feeds = cast(Feeds, request.app.state.feeds)
    try:
        with feeds.listening(source.pipeline) as feed:
            yield feed
    except FullError as error:
        raise Refusal(503, str(error)) from error


async def _nothing() -> AsyncIterator[None]:
    yield


# Large answers are made one at a time: 40 of them took 1.6 GB, and compose gives the sidecar 512 MB. Dead
# letters have a limit of their own, since charts must not wait for a store that is away for half a minute.
OneOfBatches = Annotated[None, Depends(_nothing, scope="function", max_concurrency=1)]
OneOfLetters = Annotated[None, Depends(_nothing, scope="function", max_concurrency=1)]
AllSources = Annotated[Sources, Depends(_sources)]
StaleSeconds = Annotated[float, Depends(_stale_seconds)]
Caller = Annotated[Who, Depends(_caller)]
Broker = Annotated[ClusterOrAddress, Depends(_broker)]
Warehouse = Annotated[Location, Depends(_warehouse)]
Listening = Annotated[Feed, Depends(_listening)]
Described = Annotated[Description, Depends(_described)]
