"""The route that predicts lookups with other memory, from the costs that the running job measures."""

from typing import Annotated

from fastapi import APIRouter, Query

from endmark_ops.answers.models import WhatIfs
from endmark_ops.routes.dependencies import OF_PIPELINE, UNREADABLE, Source

_BATCHES = 10  # figures are averages over so many last batches

router = APIRouter(prefix=OF_PIPELINE, tags=["api"])


@router.get("/what-ifs", responses=UNREADABLE)
def found(
    source: Source,
    exponent: Annotated[
        float | None,
        Query(
            ge=0,
            le=3,
            description="exponent of the Zipf distribution of the stream's keys; 0 is uniform. "
            "Without it, the exponent of the relation's forecast by `endmark plan` counts, or 0",
        ),
    ] = None,
) -> WhatIfs:
    """Predict the rates of lookups with other memory, from the costs of the last batches."""
    # This imports NumPy, which a sidecar does not need before somebody asks.
    from endmark_ops.answers.what_ifs import what_ifs

    described = source.description()
    if described is None:
        return WhatIfs(what_ifs=[])
    names = [lookup.relation for lookup in described.lookups]
    exponents = {each.relation: each.exponent for each in source.forecasts().lookups}
    exponents |= {} if exponent is None else dict.fromkeys(names, exponent)
    batches = source.batches(-1, _BATCHES)
    return WhatIfs(what_ifs=list(what_ifs(described, source.turns(), batches, exponents)))
