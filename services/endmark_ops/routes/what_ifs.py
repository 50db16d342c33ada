"""The route of predictions for lookups with other memory, by what the running job measures."""

from typing import Annotated

from fastapi import APIRouter, Query

from endmark_ops.routes.dependencies import UNREADABLE, Source
from endmark_ops.what_if import BATCHES, WhatIfs

router = APIRouter(prefix="/api", tags=["api"])


@router.get("/what-ifs", responses=UNREADABLE)
def found(source: Source, exponent: Annotated[float | None, Query(ge=0, le=3)] = None) -> WhatIfs:
    """Predict what lookups would yield with other memory, by the costs of the last batches.

    Keys are asked for by Zipf's law with `exponent`; without one, as `endmark plan` was told, or evenly.
    """
    # It brings NumPy, which a sidecar has no need of before somebody asks.
    from endmark_ops.predicted import what_ifs

    described = source.description()
    if described is None:
        return WhatIfs(what_ifs=[])
    names = [lookup.relation for lookup in described.lookups]
    exponents = {each.relation: each.exponent for each in source.forecasts()}
    exponents |= {} if exponent is None else dict.fromkeys(names, exponent)
    batches = source.batches(-1, BATCHES)
    return WhatIfs(what_ifs=list(what_ifs(described, source.turns(), batches, exponents)))
