"""Makes records wrong as producers and brokers do: doubled, late, misplaced, broken, contradictory."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from support.verify_world import Record

FARTHEST = 20  # places that a record may come too late
_MARK = b"unctuation"  # in a punctuation of each format

# Each kind with the share of records that it meets, and how it is injected.
NOISE: Mapping[str, tuple[float, str]] = {
    "record doubled": (0.1, "a record is in its partition twice, up to 20 places apart"),
    "record displaced": (0.1, "a record comes up to 20 places too late"),
    "record misplaced": (0.1, "a record is in another partition than the others of its key"),
    "record broken": (0.05, "a record is cut, or one of its bytes is another one"),
    "promise missing": (0.2, "a punctuation never comes"),
    "promise repeated": (0.2, "a punctuation comes twice"),
    "promise broken": (0.1, "a punctuation is cut, or one of its bytes is another one"),
    "promise contradicted": (0.2, "a row from before a punctuation comes again behind it"),
    "promise contradicted elsewhere": (0.4, "such a row comes again in another partition"),
}
# The kinds that send rows of a key to several partitions. None of these rows is the newest one of the key.
ELSEWHERE = ("record misplaced", "promise contradicted elsewhere")


def with_noise(records: list[Record], seed: object, kinds: list[str]) -> tuple[list[Record], Counter[str]]:
    """Records with noise of some kinds, and how often there is each."""
    chance, counts = random.Random(f"noise {seed}"), Counter[str]()
    for kind in kinds:
        part, _ = NOISE[kind]
        chosen = [at for at in range(len(records)) if chance.random() < chance.random() * part * 2]
        for at in reversed(chosen):
            counts[kind] += _MAKERS[kind](records, at, chance)
    return records, counts


def _is_promise(record: Record) -> bool:
    return _MARK in (record.value or b"")


def _doubled(records: list[Record], at: int, chance: random.Random) -> bool:
    records.insert(min(len(records), at + chance.randint(1, FARTHEST)), records[at])
    return True


def _displaced(records: list[Record], at: int, chance: random.Random) -> bool:
    record = records.pop(at)
    records.insert(min(len(records), at + chance.randint(1, FARTHEST)), record)
    return True


def _misplaced(records: list[Record], at: int, chance: random.Random) -> bool:
    others = _other_partitions(records, records[at])
    if not others:
        return False
    records[at] = replace(records[at], partition=chance.choice(others))
    return True


def _other_partitions(records: list[Record], of: Record) -> list[int]:
    return sorted({each.partition for each in records if each.topic == of.topic} - {of.partition})


def _broken(records: list[Record], at: int, chance: random.Random) -> bool:
    value = records[at].value
    if _is_promise(records[at]) or not value:
        return False
    records[at] = replace(records[at], value=_spoiled(value, chance))
    return True


def _missing(records: list[Record], at: int, chance: random.Random) -> bool:
    if not _is_promise(records[at]):
        return False
    records.pop(at)
    return True


def _repeated(records: list[Record], at: int, chance: random.Random) -> bool:
    return _is_promise(records[at]) and _doubled(records, at, chance)


def _promise_broken(records: list[Record], at: int, chance: random.Random) -> bool:
    value = records[at].value
    if not _is_promise(records[at]) or not value:
        return False
    records[at] = replace(records[at], value=_spoiled(value, chance))
    return True


def _rows_before(records: list[Record], at: int) -> list[Record]:
    """The rows of the partition of record `at` that came before it."""
    place = records[at].topic, records[at].partition
    before = [each for each in records[:at] if (each.topic, each.partition) == place]
    return [each for each in before if not _is_promise(each)]


def _contradicted(records: list[Record], at: int, chance: random.Random) -> bool:
    rows = _rows_before(records, at)
    if not _is_promise(records[at]) or not rows:
        return False
    records.insert(min(len(records), at + chance.randint(1, 3)), chance.choice(rows))
    return True


def _contradicted_elsewhere(records: list[Record], at: int, chance: random.Random) -> bool:
    others = _other_partitions(records, records[at])
    rows = _rows_before(records, at)
    if not _is_promise(records[at]) or not rows or not others:
        return False
    again = replace(chance.choice(rows), partition=chance.choice(others))
    # So far behind that another batch reads it: within a batch, a partition's promise binds no other one.
    records.insert(min(len(records), at + chance.randint(1, FARTHEST)), again)
    return True


def _spoiled(value: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(value))
    if chance.random() < 0.5:
        return value[:at]
    return value[:at] + bytes([chance.randrange(256)]) + value[at + 1 :]


_MAKERS: Mapping[str, Callable[[list[Record], int, random.Random], bool]] = {
    "record doubled": _doubled,
    "record displaced": _displaced,
    "record misplaced": _misplaced,
    "record broken": _broken,
    "promise missing": _missing,
    "promise repeated": _repeated,
    "promise broken": _promise_broken,
    "promise contradicted": _contradicted,
    "promise contradicted elsewhere": _contradicted_elsewhere,
}
