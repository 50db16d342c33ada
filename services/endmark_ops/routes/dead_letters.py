"""The routes that search dead letters, show a dead letter, and replay it."""

import base64
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from endmark.control.dead_letters.replays import GoneError, Replay, ReplayedError
from endmark.control.dead_letters.search import (
    Coordinates,
    DeadLetter,
    OthersError,
    Search,
    dead_letter,
    dead_letters,
)
from endmark.errors import ConfigError
from endmark.storage import Location
from endmark_ops.answers.models import DeadLetterInfo, DeadLetters, Replayed, ReplayLetter
from endmark_ops.routes.dependencies import (
    OF_PIPELINE,
    REFUSED,
    Broker,
    Caller,
    Described,
    OneOfLetters,
    Refusal,
    Source,
    Warehouse,
)

router = APIRouter(prefix=f"{OF_PIPELINE}/dead-letters", tags=["dead letters"])

_OTHERS = (
    "the sidecar's --warehouse has the dead letters of another job; start the sidecar with {pipeline} in "
    "--warehouse, in the place of the pipeline's name"
)
_LISTED_BYTES = 2_000  # the most bytes of a value in a list; of a text, the most characters


def _table(warehouse: Warehouse) -> Location:
    return warehouse / "dead_letters"


def _coordinates(text: str) -> Coordinates:
    try:
        return Coordinates.parse(text)
    except ConfigError as error:
        raise Refusal(400, str(error)) from error


def _owner(source: Source) -> str | None:
    return source.checkpoint_id()


Table = Annotated[Location, Depends(_table)]
Owner = Annotated[str | None, Depends(_owner)]
Topic = Annotated[str | None, Query(min_length=1, max_length=200, description="only records of this topic")]
Reason = Annotated[str | None, Query(min_length=1, max_length=200, description="only those with this reason")]
Text = Annotated[
    str | None,
    Query(min_length=1, max_length=200, description="only those whose value or error contains this text"),
]
After = Annotated[
    str | None,
    Query(min_length=1, max_length=200, description="the `after` of the answer that this one continues"),
]


def _search(topic: Topic = None, reason: Reason = None, text: Text = None) -> Search:
    return Search(topic, reason, text)


@router.get("", responses=REFUSED)
def list_letters(
    source: Source,
    table: Table,
    owner: Owner,
    _: OneOfLetters,
    search: Annotated[Search, Depends(_search)],
    after: After = None,
    limit: Annotated[int, Query(ge=1, le=200, description="the most dead letters of an answer")] = 50,
) -> DeadLetters:
    """List the dead letters that meet all conditions, greater offsets first. Long values are cut."""
    start = None if after is None else _coordinates(after)
    try:
        found = dead_letters(table, search, limit + 1, start, _LISTED_BYTES + 1, owner)
    except OthersError as error:
        raise Refusal(409, _OTHERS) from error
    page = found[:limit]
    replays = source.replays(page)
    return DeadLetters(
        letters=[_info(letter, replays.get(letter.at), _LISTED_BYTES) for letter in page],
        after=str(page[-1].at) if len(found) > limit else None,
    )


@router.get("/{topic}/{partition}/{offset}", responses=REFUSED)
def show_letter(
    topic: str, partition: str, offset: str, source: Source, table: Table, owner: Owner, _: OneOfLetters
) -> DeadLetterInfo:
    """Show one dead letter with all of its value."""
    letter = _letter(table, owner, f"{topic}/{partition}/{offset}")
    return _info(letter, source.replays([letter]).get(letter.at), None)


@router.post("/replay", status_code=202, responses=REFUSED)
def replay_letter(
    what: ReplayLetter,
    source: Source,
    table: Table,
    owner: Owner,
    described: Described,
    caller: Caller,
    broker: Broker,
) -> Replayed:
    """Send a dead letter to its partition once more, as it is or with another text in its place.

    The job reads the new record like any other.
    """
    letter = _letter(table, owner, what.at)
    if letter.at.topic not in described.topics.values():
        why = f"{letter.at.topic} is no stream's topic; to mend a control record, turn the knob"
        raise Refusal(400, why)
    if what.text is not None and letter.at.topic in described.binary_topics:
        # Such a text became a dead letter, and the first one could not be replayed any more.
        why = (
            f"records of {letter.at.topic} are no text; give the bytes by "
            f"endmark dead-letters replay PIPELINE {letter.at} --value-file FILE"
        )
        raise Refusal(400, why)
    sent = letter.value if what.text is None else what.text.encode()
    try:
        return _replayed(source.replay(broker, letter, sent, caller.named(what.by), described.whole_topics))
    except (ReplayedError, GoneError) as error:
        raise Refusal(409, str(error)) from error


def _letter(table: Location, owner: str | None, at: str) -> DeadLetter:
    coordinates = _coordinates(at)
    try:
        return dead_letter(table, coordinates, owner)
    except OthersError as error:
        raise Refusal(409, _OTHERS) from error
    except ConfigError as error:
        raise Refusal(404, str(error)) from error


def _info(letter: DeadLetter, replay: Replay | None, most: int | None) -> DeadLetterInfo:
    text, value = letter.text, letter.value
    bare = value is not None and text is None
    return DeadLetterInfo(
        at=str(letter.at),
        reason=letter.reason,
        error=letter.error,
        text=None if text is None else text[:most],
        base64=base64.b64encode((value or b"")[:most]).decode() if bare else None,
        whole=most is None or len((value or b"") if text is None else text) <= most,
        replayed=None if replay is None else _replayed(replay),
    )


def _replayed(replay: Replay) -> Replayed:
    return Replayed(at=replay.at, by=replay.by, changed=replay.changed, to_offset=replay.to_offset)
