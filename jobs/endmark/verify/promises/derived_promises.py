"""Reads the announced patterns of a stage as promises of its derived stream.

Each of these patterns is a promise. If it restricts columns of the second key alone and has one value of each
of them, or several values of a single one, it names keys. All values of a column that no result lacks are no
restriction. If the second key has the columns of the first one, keys that are announced by their names are
named, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import pyarrow as pa

from endmark.pipeline.stage import Stage
from endmark.types import ColumnType
from endmark.verify.formats.patterns import MARK, Bound, read
from endmark.verify.join.sides import key_column, stream_names
from endmark.verify.promises.closed_keys import load_promises, named_keys
from endmark.verify.promises.final_keys import announces
from endmark.verify.promises.output_punctuations import find_final_keys
from endmark.verify.session import Session, name

_KEPT = """
CREATE TABLE derived_patterns AS
SELECT punctuation, bool_or(sure) AS sure FROM (
    SELECT punctuation, true AS sure FROM announced_patterns
    UNION ALL SELECT punctuation, false FROM uncertain_punctuations
) GROUP BY punctuation
"""

_NAMED = 'CREATE TABLE $named AS SELECT *, 0 AS "partition" FROM arriving'

# A key that a pattern closes, too, may be announced by itself.
_HANDED = """
CREATE TABLE handed_keys AS
SELECT $renamed, bool_or(required) AS sure FROM (
    FROM final_keys UNION ALL SELECT *, false FROM possibly_final
) GROUP BY ALL
"""


def promise_derived(session: Session, stage: Stage, earlier: Stage, given: str) -> None:
    """Make the tables of the promises of a derived stream, which has one partition.

    `derived_patterns` has all patterns of the stage before, and whether they are `sure` to be announced.
    `named_<derived>` has the keys that they name, `patterns_<derived>` and `closing_<derived>` the other
    promises on the key, and `wider_<derived>` those on further columns. `handed_keys` has the keys that the
    stage before announces by name, and whether that is `sure`. They are named, too, and there are none if the
    stages have different keys. This needs `final`, `possibly_final`, `announced_patterns` and
    `uncertain_punctuations` of the stage before.

    Args:
        session: the session.
        stage: the further stage.
        earlier: the stage before.
        given: the name of the derived stream.
    """
    session.run(_KEPT)
    found = dict[tuple[tuple[str, Bound], ...], bool]()
    for bounds, sure in _promises(session, stage, earlier):
        one = tuple(sorted(bounds.items(), key=lambda each: each[0]))
        found[one] = sure or found.get(one, False)
    keys = [
        {key_column(column): value for column, value in key.items()}
        for one in found
        for key in named_keys(dict(one), stage.key)
    ]
    columns = [(key_column(column), kind.arrow) for column, kind in stage.key_types.items()]
    known = stream_names(stage.pipeline, given)
    session.run_on(pa.Table.from_pylist(keys, pa.schema(columns)), _NAMED, named=known["named"])
    _hand_keys(session, stage, earlier)
    named_too = "INSERT INTO $named SELECT * EXCLUDE (sure), 0 FROM handed_keys"
    session.run(named_too, named=known["named"])
    others = [(dict(one), sure) for one, sure in found.items() if not named_keys(dict(one), stage.key)]
    on_key = [(bounds, sure) for bounds, sure in others if bounds.keys() <= set(stage.key)]
    wider = [(bounds, sure) for bounds, sure in others if not bounds.keys() <= set(stage.key)]
    load_promises(session, known["patterns"], stage.key_types, on_key)
    load_promises(session, known["wider"], promised_columns(stage, earlier), wider, len(on_key))
    session.run("CREATE VIEW $closing AS FROM $patterns", **known)


def _hand_keys(session: Session, stage: Stage, earlier: Stage) -> None:
    columns = {key_column(column): kind for column, kind in stage.key_types.items()}
    if not stage.same_key or announces(earlier) == "never":
        session.create("handed_keys", columns | {"sure": ColumnType.BOOLEAN})
        return
    find_final_keys(session, earlier)
    places = [key_column(earlier.key[place]) for place in stage.same_key]
    renamed = [f"{name(before)} AS {name(own)}" for before, own in zip(places, columns, strict=True)]
    session.run(_HANDED, renamed=", ".join(renamed))


def _promises(session: Session, stage: Stage, earlier: Stage) -> Iterator[tuple[Mapping[str, Bound], bool]]:
    """Yield what each promise restricts, by column of the key or by its own name, and whether it is sure."""
    own = zip(stage.key_columns(str(stage.derived)), stage.key, strict=True)
    equal = {same: key for column, key in own for same in earlier.equal_columns(column)}
    kinds = promised_columns(stage, earlier)
    for row in session.run("FROM derived_patterns ORDER BY punctuation"):
        patterns = {
            column: pattern
            for column, pattern in json.loads(row["punctuation"]).items()
            if not (column in earlier.present_keys and pattern == {"between": {}})
        }
        written = json.dumps({MARK: {equal.get(column, column): each for column, each in patterns.items()}})
        bounds = read(written.encode(), kinds, tuple(kinds)) if patterns else {}
        if bounds is None:
            raise AssertionError(f"{row['punctuation']} is no pattern on {', '.join(kinds)}")
        yield bounds, row["sure"]


def promised_columns(stage: Stage, earlier: Stage) -> dict[str, ColumnType]:
    """Return the columns that promises of a derived stream may restrict: those of the key by their names, and
    others of the results of the stage before."""
    columns = dict(earlier.columns.of_results)
    return stage.key_types | {column: columns[column] for column in stage.promises.beside_key}
