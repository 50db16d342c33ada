"""Drafts a pipeline from samples of its topics and from the definitions of its master tables."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from endmark.databases import database_url
from endmark.draft.members import renamed
from endmark.draft.relations import relations_at
from endmark.draft.steps import guess_steps
from endmark.draft.streams import draft_stream
from endmark.draft.text import Draft
from endmark.pipeline.sources import COORDINATES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.draft.samples import Sample
    from endmark.draft.steps import DraftSteps
    from endmark.draft.streams import DraftStream

URL_VARIABLE = "ENDMARK_RELATION_URL"


def draft(
    name: str, samples: Sequence[Sample], database: str | None = None, tables: Sequence[str] = ()
) -> Draft:
    """Draft a pipeline.

    Args:
        name: a name for the pipeline; characters that it cannot have are replaced.
        samples: a sample of each topic.
        database: the URL of the database of the master tables; `None` without any.
        tables: the master tables; if there are none, those of the database whose key some stream has.

    Raises:
        ConfigError: a sample has no rows or no timestamps, the streams share no column, or a table is missing
            or has no key.
        MissingPartError: the database does not answer, or its driver is not installed.
    """
    taken: set[str] = set()
    streams = [draft_stream(renamed(_short(each.topic, samples), taken), each) for each in samples]
    relations = [] if database is None else relations_at(database, tables)
    for relation in relations:
        relation.name = renamed(relation.table, taken)
    steps = guess_steps(streams, relations, taken)
    _part_names(streams, steps)
    asked_for = tuple(each for each in steps.unused if each.table in tables)
    url = _url(database) if database is not None and steps.lookups else None
    newest_by = streams[0].take_primary_key() if len(streams) == 1 else ()
    return Draft(renamed(name, set()), streams, replace(steps, unused=asked_for), url, newest_by)


def _short(topic: str, samples: Sequence[Sample]) -> str:
    """Return the last part of a topic's name, such as the table of Debezium's, if no other topic has it."""
    last = topic.rpartition(".")[2]
    alike = [each for each in samples if each.topic.rpartition(".")[2] == last]
    return last if last and len(alike) == 1 else topic


def _part_names(streams: Sequence[DraftStream], steps: DraftSteps) -> None:
    """Leave out columns that tables could not tell from another one: c of a_b from b_c of a, or A from a."""
    references = (reference for lookup in steps.lookups for reference in lookup.key)
    keep = {*(steps.join.on if steps.join else ()), *(each.rpartition(".")[2] for each in references)}
    needed = {
        (each.name, column)
        for each in streams
        for column in {*keep, *each.required}
        if column in each.columns
    }
    seen = {_in_tables(*column) for column in needed}
    seen |= {_in_tables(each.name, column) for each in streams for column in COORDINATES}
    for stream in streams:
        for column in [name for name in stream.columns if (stream.name, name) not in needed]:
            name = _in_tables(stream.name, column)
            if name in seen:
                stream.leave_out(column, f"another column is {name} in tables")
            seen.add(name)


def _in_tables(origin: str, column: str) -> str:
    """Return the name of a column in tables, in small letters, since Delta takes both cases for one."""
    return f"{origin}_{column}".lower()


def _url(database: str) -> str:
    """Return the URL as a file may have it: one with a password or options is in the environment."""
    return f"${{{URL_VARIABLE}}}" if has_secret(database) else json.dumps(database)


def has_secret(database: str) -> bool:
    """Return whether a URL has a password, or options, which may hold one."""
    parsed = database_url(database, "--database")
    return parsed.password is not None or bool(parsed.query)
