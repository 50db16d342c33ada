"""The sentences that say why a key is open, made of the answer of a job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Facts = Mapping[str, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = 1_000_000
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))


def sentences(key: Mapping[str, Any], answer: Facts) -> list[str]:
    """Return the verdict on a key in one step, then what each stream has of it.

    Args:
        key: the key that was asked for.
        answer: the answer of the job, as `engine.bucket.answers` makes it.
    """
    name = ", ".join(f"{column}={value}" for column, value in key.items())
    streams: Sequence[Facts] = answer["streams"]
    lines = [_verdict(name, answer)]
    lines += [_line(each, streams) for each in streams]
    return lines


def is_open(answer: Facts) -> bool:
    """Return whether rows or a group of the key are in state, or some stream alone has closed it."""
    if answer["final"]:
        return False
    return bool(answer["group"] or any(each["rows"] or each["closed"] for each in answer["streams"]))


def _verdict(name: str, answer: Facts) -> str:
    step, streams = answer["step"], {each["stream"]: each for each in answer["streams"]}
    if answer["final"]:
        return f"{name} is final in {step}: it has no later result"
    if not is_open(answer):
        return f"{name} is unknown in {step}: no row of it is in state, and no stream has closed it"
    reasons = [
        reason for other in streams.values() if (reason := _waited_for(other, answer["streams"])) is not None
    ]
    return f"{name} is open in {step} because {'; and '.join(reasons or _without_rows(answer))}"


def _waited_for(other: Facts, streams: Sequence[Facts]) -> str | None:
    """Return the clause that says why rows of the key wait for a stream; `None` if none does."""
    ends = {
        each["stream"]: wait["until"]
        for each in streams
        for wait in each["waits_for"]
        if wait["stream"] == other["stream"]
    }
    if not ends:
        return None
    text = f"{other['stream']} has not closed it: {_missing(other)}"
    for_ever = [stream for stream, until in ends.items() if until is None]
    if for_ever:
        return f"{text}; its rows of {' and '.join(for_ever)} have no window"
    last = max(ends, key=lambda stream: ends[stream])
    return (
        f"{text}; the window of its rows of {last} ends when {_possessive(other['stream'])} progress passes "
        f"{_time(ends[last])} ({_progress(other)})"
    )


def _without_rows(answer: Facts) -> Iterator[str]:
    """Yield the clauses that say why a key without waiting rows is not final."""
    if answer["announces"] == "never":
        yield "the preset announces no key"
        return
    if answer["times"]:  # of a stream without a join
        (stream,) = answer["streams"]
        columns = " or ".join(answer["times"])
        yield f"{_possessive(stream['stream'])} progress has not passed its {columns} ({_progress(stream)})"
        if not stream["closes"]:
            return
    closers = [each for each in answer["streams"] if each["closed"]]
    for each in answer["streams"]:
        if each["closed"]:
            continue
        missing = f"{each['stream']} has not closed it: {_missing(each)}"
        if not closers or answer["announces"] == "closed":
            yield missing
        elif each["preserved"]:
            yield f"its rows are results even without a partner, and {missing}"


def _missing(stream: Facts) -> str:
    """Return what a stream, or the members of a union, have not sent to close the key."""
    if not stream["closes"]:
        return "it closes no key"
    lacking = [text for member in stream["members"] if (text := _missing_of(stream, member)) is not None]
    return " and ".join(lacking)


def _missing_of(stream: Facts, member: Facts) -> str | None:
    """Return what a stream has not sent, given the facts of its side; `None` if it has closed the key."""
    topic, numbers, keyed = member["topic"], member["numbers"], member["keyed"]
    if not topic:  # of an earlier join
        return "it has announced no pattern that matches it"
    named = {at for at, _ in stream["named"]} & set(numbers)
    promised = {at for at, _ in stream["matched"]} & set(numbers) | (set() if keyed else named)
    left = [numbers.index(at) for at in numbers if at not in promised]
    if not left or (keyed and named):
        return None
    if keyed and not promised:
        return f"no partition of topic {topic} has sent a punctuation for it"
    has = "has" if len(left) == 1 else "have"
    text = f"{_partitions(left)} of topic {topic} {has} sent no punctuation that "
    return (
        f"{text}matches it, and no partition has sent one that names it"
        if keyed
        else f"{text}names or matches it"
    )


def _partition(stream: Facts, at: int) -> str:
    """Return a partition of a side as `topic/partition`, given its number there."""
    member = next(each for each in stream["members"] if at in each["numbers"])
    return f"{member['topic']}/{member['numbers'].index(at)}"


def _line(stream: Facts, streams: Sequence[Facts]) -> str:
    """Return what one stream has of the key: rows, how it has closed it, and its progress."""
    rows = stream["rows"]
    parts = [f"{rows:,} row{'' if rows == 1 else 's'} in state"]
    if rows:
        first, last = _time(stream["oldest"]), _time(stream["newest"])
        parts[0] += f" of {first}" if first == last else f" of {first} to {last}"
        parts[0] += "".join(
            f", such as {_partition(stream, at)}/{offset}" for at, offset in stream["coordinates"]
        )
    parts.append(_closing(stream))
    if stream["held_rows"]:
        parts.append(f"{stream['held_rows']:,} rows beside it wait for their lookups")
    if len(streams) > 1:
        parts.append(f"progress {_progress(stream)}")
    return f"{stream['stream']}: {'; '.join(parts)}"


def _closing(stream: Facts) -> str:
    if not stream["closed"]:
        return "has not closed it" if stream["closes"] else "closes no key"
    if stream["named"]:
        coordinates = ", ".join(f"{_partition(stream, at)}/{offset}" for at, offset in stream["named"])
        return f"closed by {coordinates}"
    if len(stream["matched"]) == sum(len(member["numbers"]) for member in stream["members"]):
        coordinates = ", ".join(
            _partitions_of(stream, [at]) if offset is None else f"{_partition(stream, at)}/{offset}"
            for at, offset in stream["matched"]
        )
        return f"closed by a pattern in each partition: {coordinates}"
    return "closed, more than 1,000 records ago"


def _progress(stream: Facts) -> str:
    """Return the progress of a stream, and what holds it back."""
    if stream["silent"]:
        return f"none yet, since {_partitions_of(stream, stream['silent'])} had no row and no heartbeat"
    if stream["progress"] is None:
        return "none yet"
    text = f"now {_time(stream['progress'])}"
    if stream["behind"]:
        slowest, behind = _partitions_of(stream, [stream["slowest"]]), _duration(stream["behind"])
        text += f", held back by {slowest}, {behind} behind"
    return text


def _partitions_of(stream: Facts, numbers: Sequence[int]) -> str:
    """Return partitions of a side, with their topics if it is a union."""
    if len(stream["members"]) == 1:
        return _partitions(numbers)
    return " and ".join(_partition(stream, at) for at in numbers)


def _partitions(numbers: Sequence[int]) -> str:
    *others, last = map(str, numbers)
    return f"partitions {', '.join(others)} and {last}" if others else f"partition {last}"


def _possessive(name: str) -> str:
    return f"{name}'" if name.endswith("s") else f"{name}'s"


def _time(microseconds: int) -> str:
    try:
        found = _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:  # a window may end after the year 9999
        return "the year 9999"
    return found.replace(tzinfo=None).isoformat() + "Z"


def _duration(microseconds: int) -> str:
    seconds = microseconds / _SECOND
    for unit, length in _UNITS:
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
