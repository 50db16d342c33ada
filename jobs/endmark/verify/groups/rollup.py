"""Makes the expected groups of final groups, by the definitions of docs/semantics/groups-of-groups.md.

The rows are the expected final groups of results. If it depends on batches, or on the moment at which a
partition was found idle, which of them there are, no group of them is compared.
"""

from __future__ import annotations

from endmark.pipeline import Pipeline
from endmark.pipeline.rollup import Rollup
from endmark.verify.groups.measures import over
from endmark.verify.promises.announced_patterns import matched
from endmark.verify.session import Session, name, names

_ALL = """
CREATE TABLE $running AS
SELECT *, ($final) AS final FROM (SELECT $by, $measures FROM $groups GROUP BY $by)
"""

_UNSURE = """
SELECT (SELECT count(*) FROM uncertain_results) + (SELECT count(*) FROM $unsure_groups)
    + (SELECT count(*) FROM $running WHERE NOT final AND ($perhaps)) > 0 AS unsure
"""

_FINAL = """
CREATE TABLE $expected AS
SELECT * EXCLUDE (final) FROM $running WHERE final
"""


def expect_rollups(session: Session, pipeline: Pipeline) -> frozenset[str]:
    """Make the expected final groups and the expected groups so far of each aggregate of final groups.

    This needs the tables of `expect_groups`. If it is uncertain which groups an aggregate takes, or whether
    one of its own is final, its tables are empty, and so are those that were found.

    Returns:
        The kinds of rows whose tables and topics cannot be compared.
    """
    return frozenset(role for rollup in pipeline.rollups for role in _expect(session, rollup))


def _expect(session: Session, rollup: Rollup) -> list[str]:
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
        "perhaps": matched(session, pipeline.last_stage, "uncertain_punctuations", equal),
        # `uncertain_` has such groups by the join key, and `unsure_` the keys of groups by other columns.
        "unsure_groups": name(f"{'unsure' if rollup.of.regroups else 'uncertain'}_{rollup.of.final_role}"),
    }
    session.run(_ALL, **fragments)
    session.run(_FINAL, **fragments)
    (found,) = session.run(_UNSURE, **fragments)
    if not found["unsure"]:
        return []
    session.run("DELETE FROM $running", **fragments)
    session.run("DELETE FROM $expected", **fragments)
    roles = [rollup.final_role, rollup.running_role]
    for role in filter(pipeline.outputs.tables_by_role.__contains__, roles):
        session.run("DELETE FROM $table", table=name(f"actual_{role}"))
    return roles
