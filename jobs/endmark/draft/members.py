"""The members of rows that can be columns, at any depth, and a name for each of them."""

from __future__ import annotations

import re
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING, Any

from endmark.pipeline.record_parts import MEMBER
from endmark.pipeline.sources import COORDINATES
from endmark.wire.json.spelling import MOST_LEVELS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Path = tuple[str, ...]
"""The names of the members that lead to a value."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")


def leaves(document: Mapping[str, Any], before: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the values of a JSON object and of the objects within it, with their paths.

    An object that is too deep for its members to be columns is a value.
    """
    for name, value in document.items():
        path = (*before, name)
        if isinstance(value, dict) and value and len(path) < MOST_LEVELS:
            yield from leaves(value, path)
        else:
            yield path, value


def names_of(rows: Sequence[Mapping[Path, object]], *, by_path: bool) -> dict[Path, str]:
    """Return a name for each member of some rows.

    A member of a row has its own name, if a column may have it. All others are named by their path. What a
    pipeline file cannot name keeps a name that no column has. A member that is an object in some rows is one
    in all, unless more rows have another value there. A null may stand for an object.

    Args:
        rows: the values of each row by their paths.
        by_path: whether the format of the rows has members by path.
    """
    every = dict.fromkeys(path for row in rows for path in row)
    valued = Counter(path for row in rows for path, value in row.items() if value is not None)
    objects = Counter(outer for row in rows for outer in {each for path in row for each in outers(path)})
    flat = {path for path in every if not objects[path] or valued[path] > objects[path]}
    paths = [path for path in every if path in flat and flat.isdisjoint(outers(path))]
    own = {path[0] for path in paths if len(path) == 1 and can_name(path[0])}
    taken = {name.lower() for name in (*own, *COORDINATES)}
    names: dict[Path, str] = {}
    for path in paths:
        if len(path) == 1 and path[0] in own:
            names[path] = path[0]
        elif by_path and all(map(_is_plain, path)):
            names[path] = renamed("_".join(path), taken)
        else:
            names[path] = ".".join(path)
    return names


def outers(path: Path) -> list[Path]:
    """Return the paths of the objects that a value is in."""
    return [path[:depth] for depth in range(1, len(path))]


def _is_plain(member: str) -> bool:
    """Return whether a pipeline file in ASCII can name a member."""
    return bool(re.fullmatch(MEMBER, member)) and member.isascii() and member.isprintable()


def can_name(name: str) -> bool:
    """Return whether a column of a stream may have a name."""
    return bool(_NAME.fullmatch(name)) and name not in COORDINATES


def renamed(name: str, taken: set[str]) -> str:
    """Return a name for a part of the pipeline file that no other part has, and remember it."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)[:50].strip("_")
    plain = plain if re.match(r"[A-Za-z]", plain) else f"s_{plain}".strip("_")
    numbered = (plain if number == 1 else f"{plain}_{number}" for number in count(1))
    found = next(each for each in numbered if each.lower() not in taken)
    taken.add(found.lower())
    return found
