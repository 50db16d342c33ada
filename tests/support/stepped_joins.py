"""A pipeline of two joins with row steps behind them."""

from __future__ import annotations

from typing import Any

from endmark.pipeline import Pipeline
from support.two_stages import two_stages

LATE: dict[str, Any] = {
    "where": "payments.payer_id <> 9 -- who never pays",
    "derive": {"late": "payments.at > Orders . AT", "twice": "customer_id * 2"},
    "drop": ["payer_id"],
}


def stepped(
    late: dict[str, Any] | None = None,
    *behind: dict[str, Any],
    by: list[str] | None = None,
    asking: str = "orders.customer_id",
    **fields: Any,
) -> Pipeline:
    """Two joins, with the step `late` behind the first one and others behind the second one.

    Args:
        late: the first step; `None` for `LATE`.
        behind: the other steps, which are called `behind_0` and so on.
        by: the columns of the groups; `None` without groups.
        asking: the column by which rows behind `late` are looked up, if they are.
        fields: as `two_stages` takes them.
    """
    document: dict[str, Any] = two_stages(**fields, by=by and ["customer_id"]).model_dump()
    steps, last = document["steps"], "served"
    steps["late"] = {"from": "paid", **(LATE if late is None else late)}
    for name, step in steps.items():
        if name != "late" and step.get("from") == "paid":
            step["from"] = "late"
            step["lookup"]["key"] = asking
    steps["served"]["join"] = ["late" if each == "paid" else each for each in steps["served"]["join"]]
    for number, step in enumerate(behind):
        steps[f"behind_{number}"] = {"from": last, **step}
        last = f"behind_{number}"
    document["tables"] = {"late": {}, **document["tables"]}
    del document["tables"]["served"], document["tables"]["paid"]
    if "grouped" in steps:
        steps["grouped"]["from"] = last
        steps["grouped"]["aggregate"]["by"] = by
    return Pipeline.model_validate(document | {"tables": {last: {}, **document["tables"]}})
