"""Makes the expected groups of final groups, by the definitions of docs/semantics.md.

The rows are the expected final groups of results. If it depends on the moment at which a partition was found
idle which of them there are, no group of them is compared.
"""

from __future__ import annotations

from endmark.pipeline import Pipeline
from endmark.pipeline.rollup import Rollup
from endmark.verify.announced_patterns import matched
from endmark.verify.measures import over
from endmark.verify.session import Session, name, names

_SURE = """
SELECT (SELECT count(*) FROM uncertain_results) + (SELECT count(*) FROM uncertain_punctuations)
    + (SELECT count(*) FROM (FROM possibly_final EXCEPT FROM final)) = 0 AS sure
"""

_ALL = """
CREATE TABLE $running AS
SELECT *, ($final) AS final FROM (SELECT $by, $measures FROM $groups WHERE $sure GROUP BY $by)
"""

_FINAL = """
CREATE TABLE $expected AS
SELECT * EXCLUDE (final) FROM $running WHERE final
"""


def expect_rollups(session: Session, pipeline: Pipeline) -> None:
    """Make the expected final groups and the expected groups so far of each aggregate of final groups.

    This needs the tables of `expect_groups`. If some groups are uncertain, all of these tables are empty, and
    so are those that were found.
    """
    if pipeline.rollups:
        (found,) = session.run(_SURE)
        for rollup in pipeline.rollups:
            _expect(session, rollup, sure=bool(found["sure"]))


def _expect(session: Session, rollup: Rollup, *, sure: bool) -> None:
    types, pipeline = rollup.of.columns(), rollup.pipeline
    measures = [
        f"{over(measure, types)} AS {name(column)}" for column, measure in rollup.aggregate.measures.items()
    ]
    equal = {same: name(column) for same, column in rollup.equals.items()}
    fragments = {
        "running": name(f"expected_{rollup.running_role}"),
        "expected": name(f"expected_{rollup.final_role}"),
        "groups": name(f"expected_{rollup.of.final_role}"),
        "by": names(list(rollup.key)),
        "measures": ", ".join(measures),
        "final": matched(session, pipeline.last_stage, "announced_patterns", equal),
        "sure": str(sure),
    }
    session.run(_ALL, **fragments)
    session.run(_FINAL, **fragments)
    for role in (rollup.final_role, rollup.running_role):
        if role in pipeline.laid_out and not sure:
            session.run("DELETE FROM $table", table=name(f"actual_{role}"))
