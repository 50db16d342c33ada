"""Checks that no row of a published topic follows an output punctuation of its partition that matches it.

A repeat may follow one, since Kafka gets each batch at least once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from endmark.pipeline import Pipeline
from endmark.types import ColumnType
from endmark.verify.breach import breach
from endmark.verify.formats.patterns import MARK, Bound, read
from endmark.verify.join.sides import key_column
from endmark.verify.promises.closed_keys import pattern_rows, within
from endmark.verify.report import Breach
from endmark.verify.session import Session, fill, name

# Places and restrictions of punctuations, by the columns restricted and by whether they name a key.
_Patterns = dict[tuple[tuple[str, ...], bool], list[tuple[dict[str, Any], Mapping[str, Bound]]]]

# A row is new where its partition has it first. Without a key, its repeat may be in another partition.
_NEW = """
CREATE TABLE new_rows AS
SELECT * FROM (
    SELECT *, min("#offset") OVER (PARTITION BY "#partition", "#batch", "#value") AS "#first",
        min("#partition") OVER equal AS "#least", max("#partition") OVER equal AS "#greatest"
    FROM published_results
    WINDOW equal AS (PARTITION BY "#batch", "#value")
) WHERE "#offset" = "#first" AND "#least" = "#greatest"
"""

_FIRST = """
SELECT punctuation, "#partition" AS "partition", min("#offset") AS "offset" FROM said_results GROUP BY ALL
"""

_FOLLOWS = """
SELECT r."#partition" AS "partition", q."offset" AS punctuation, r."#offset" AS "row"
FROM new_rows r JOIN $patterns q ON q."partition" = r."#partition" AND $matches
WHERE q."offset" < r."#offset"
"""

_SCATTERED = """
SELECT punctuation, count(DISTINCT "#partition") AS partitions FROM said_results
WHERE "#key" IS NULL AND punctuation IN (SELECT punctuation FROM announced_patterns)
GROUP BY punctuation HAVING partitions < (SELECT count(*) FROM ranges WHERE topic = ?)
"""


def check_order(session: Session, pipeline: Pipeline, topic: str) -> list[Breach | None]:
    """Check that no new row follows an output punctuation that matches it.

    Args:
        session: the session that has `published_results` and `said_results`.
        pipeline: the pipeline.
        topic: the topic of the results.
    """
    columns = pipeline.outputs.topic_columns("results")
    session.run(_NEW)
    follows = []
    for number, ((restricted, named), patterns) in enumerate(_patterns(session, columns).items()):
        kinds = {column: columns[column] for column in restricted}
        table = name(f"said_{number}")
        session.run_on(pattern_rows(kinds, patterns), "CREATE TABLE $table AS FROM arriving", table=table)
        follows.append(fill(_FOLLOWS, patterns=table, matches=_matches(restricted, named=named)))
    if not follows:
        return []
    rule = f"topic {topic}: a new row behind a punctuation that matches it"
    return [breach(session, rule, " UNION ALL ".join(follows))]


def check_partitions(session: Session, topic: str) -> list[Breach | None]:
    """Check that every partition of the topic of the results has each announced pattern."""
    return [breach(session, f"topic {topic}: a pattern that a partition lacks", _SCATTERED, [topic])]


def _patterns(session: Session, columns: Mapping[str, ColumnType]) -> _Patterns:
    """Return the output punctuations by the columns that they restrict, and by whether they name a key."""
    found: _Patterns = {}
    for said in session.run(_FIRST):
        record = f'{{"{MARK}": {said.pop("punctuation")}}}'.encode()
        # Texts that no column has are unexpected anyway.
        if (bounds := read(record, columns, tuple(columns))) is not None:
            named = bool(bounds) and all(len(bound.among or ()) == 1 for bound in bounds.values())
            found.setdefault((tuple(sorted(bounds)), named), []).append((said, bounds))
    return found


def _matches(restricted: tuple[str, ...], *, named: bool) -> str:
    """The condition that a punctuation `q` matches a row `r`. DuckDB finds equal keys by a hash join."""
    if named:
        equal = [f"q.{name(f'{key_column(column)}_among')}[1] = r.{name(column)}" for column in restricted]
        return " AND ".join(equal)
    present = [f"r.{name(column)} IS NOT NULL" for column in restricted]
    return " AND ".join([within({column: f"r.{name(column)}" for column in restricted}), *present]) or "true"
