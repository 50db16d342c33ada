"""The route that asks the running job what keeps a key open."""

from fastapi import APIRouter

from endmark.control.questions.askable_keys import read_key
from endmark.control.questions.reasons import is_open, sentences
from endmark.errors import ConfigError, EndmarkError, MissingPartError
from endmark.types import ColumnType
from endmark.wire.control import Question
from endmark_ops.answers.models import Ask, KeyAnswer, Why
from endmark_ops.routes.dependencies import OF_PIPELINE, REFUSED, Broker, Caller, Described, Refusal, Source

PATIENCE_SECONDS = 20.0

router = APIRouter(prefix=OF_PIPELINE, tags=["why"])


@router.post("/why", responses=REFUSED)
def why(what: Ask, source: Source, described: Described, caller: Caller, broker: Broker) -> Why:
    """Ask the job by a control record, and wait until it has answered from its state.

    The answer is about the end of the batch that read the question. It takes a token that may write, since
    each question makes the job run a batch.
    """
    keys = [{name: ColumnType.parse(kind) for name, kind in key.items()} for key in described.keys]
    try:
        key = read_key(keys, [f"{name}={value}" for name, value in what.key.items()])
    except ConfigError as error:
        raise Refusal(400, str(error)) from error
    question = Question(key, caller.named(what.by))
    try:
        found = source.ask(broker, described.control_topic, question, PATIENCE_SECONDS)
    except MissingPartError:
        raise
    except EndmarkError as error:
        raise Refusal(409, str(error)) from error
    answers = [
        KeyAnswer(step=each["step"], open=is_open(each), final=each["final"], sentences=sentences(key, each))
        for each in found["answers"]
    ]
    return Why(batch_id=found["batch_id"], answers=answers)
