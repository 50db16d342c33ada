"""Makes the expected groups of final groups, by the definitions of docs/semantics.md.

The rows are those of `expected_groups`. If it depends on the moment at which a partition was found idle which
of them there are, no group of them is compared.
"""

from __future__ import annotations

from endmark.pipeline import Pipeline
from endmark.verify.announced_patterns import matched
from endmark.verify.measures import over
from endmark.verify.session import Session, name, names

_SURE = """
SELECT (SELECT count(*) FROM uncertain_results) + (SELECT count(*) FROM uncertain_punctuations)
    + (SELECT count(*) FROM (FROM possibly_final EXCEPT FROM final)) = 0 AS sure
"""

_ALL = """
CREATE TABLE expected_running_rollup AS
SELECT *, ($final) AS final FROM (SELECT $by, $measures FROM expected_groups WHERE $sure GROUP BY $by)
"""

_FINAL = """
CREATE TABLE expected_rollup AS
SELECT * EXCLUDE (final) FROM expected_running_rollup WHERE final
"""


def expect_rollup(session: Session, pipeline: Pipeline) -> None:
    """Make `expected_rollup` and `expected_running_rollup`, if the pipeline groups final groups.

    This needs the tables of `expect_groups`. If some groups are uncertain, all of these tables are empty, and
    so are those that were found.
    """
    if (rollup := pipeline.rollup) is None:
        return
    (found,) = session.run(_SURE)
    types = pipeline.group_columns()
    measures = [
        f"{over(measure, types)} AS {name(column)}" for column, measure in rollup.aggregate.measures.items()
    ]
    equal = {same: name(column) for same, column in rollup.equals.items()}
    session.run(
        _ALL,
        by=names(list(rollup.key)),
        measures=", ".join(measures),
        final=matched(session, pipeline.last_stage, "announced_patterns", equal),
        sure=str(found["sure"]),
    )
    session.run(_FINAL)
    for role in ("rollup", "running_rollup"):
        if role in pipeline.laid_out and not found["sure"]:
            session.run("DELETE FROM $table", table=name(f"actual_{role}"))
