"""Makes the derived stream of a further stage from the results of the stage before.

Its rows are these results, except for those with a null in the key. A later row comes from a later row of the
first input there, or from one that is still in state. So the least of their times is the progress of the
derived stream. It closes the keys that an announced pattern matches.
"""

from __future__ import annotations

from endmark.pipeline.stage import Stage
from endmark.verify.join.sides import key_column, stream_names
from endmark.verify.join.step_tables import expect_join
from endmark.verify.promises.announced_patterns import matched
from endmark.verify.promises.derived_promises import promise_derived
from endmark.verify.promises.live_rows import oldest_to_come
from endmark.verify.promises.output_punctuations import expect_patterns
from endmark.verify.session import Session, name, names, text

_ROWS = """
CREATE TABLE $rows AS
SELECT $columns, true AS "#sure" FROM expected_results WHERE $keyed
UNION ALL SELECT $columns, false FROM uncertain_results WHERE $keyed
"""

# NULL is the progress of a stream of which some partition had no row.
_PROGRESS = """
INSERT INTO progress
SELECT $derived, CASE WHEN p.lowest IS NOT NULL THEN least(p.lowest, ($oldest)) END,
    CASE WHEN p.highest IS NOT NULL THEN least(p.highest, ($oldest_sure)) END
FROM progress p WHERE p.stream = $first
"""

_USED_UP = (
    "expected_results",
    "uncertain_results",
    "expected_joined_results",
    "uncertain_joined_results",
    "candidates",
    "candidates_kept",
    "final",
    "possibly_final",
)

_CLOSED = """
CREATE TABLE $closed AS SELECT $key FROM mentioned WHERE $matched
UNION SELECT $key FROM handed_keys WHERE sure OR $unsure
"""


def derive(session: Session, stage: Stage, earlier: Stage, given: str) -> None:
    """Make `rows_<derived>` and its row of `progress` from the tables of the stage before, which go away.

    `rows_<derived>` has the columns of the results. In `#sure` it says whether the row is certainly there.
    `derived_patterns` has the patterns of the stage before, and `named_<derived>` the keys that they name.

    Args:
        session: the session.
        stage: the further stage.
        earlier: the stage before.
        given: the name of the derived stream.
    """
    known = stream_names(stage.pipeline, given)
    expect_patterns(session, earlier)
    _bound_progress(session, given, earlier)
    keyed = " AND ".join(f"{name(column)} IS NOT NULL" for column in stage.key_columns(given))
    session.run(
        _ROWS, columns=names([column for column, _ in earlier.columns.of_results]), keyed=keyed, **known
    )
    promise_derived(session, stage, earlier, given)
    expect_join(session, earlier)
    for table in _USED_UP:
        session.run("DROP TABLE IF EXISTS $table", table=table)


def _bound_progress(session: Session, given: str, earlier: Stage) -> None:
    first = earlier.inputs[0]
    oldest, oldest_sure = oldest_to_come(earlier, first)
    session.run(_PROGRESS, derived=text(given), first=text(first), oldest=oldest, oldest_sure=oldest_sure)


def close_derived_keys(session: Session, stage: Stage, earlier: Stage, given: str) -> None:
    """Make `closed_<derived>` and `possibly_closed_<derived>`.

    Needs `mentioned`, `derived_patterns` and `handed_keys`.

    Args:
        session: the session.
        stage: the further stage.
        earlier: the stage before.
        given: the name of the derived stream.
    """
    columns = {
        same: name(key_column(column))
        for column, own in zip(stage.key, stage.key_columns(given), strict=True)
        for same in earlier.equal_columns(own)
    }
    surely = matched(session, earlier, "(FROM derived_patterns WHERE sure)", columns)
    perhaps = matched(session, earlier, "derived_patterns", columns)
    for closed, conditions in (("closed", surely), ("possibly_closed", perhaps)):
        session.run(
            _CLOSED,
            closed=name(f"{closed}_{given}"),
            key=names([key_column(column) for column in stage.key]),
            matched=conditions,
            unsure=str(closed != "closed"),
        )
