"""`endmark why` asks the running job what keeps a key or its group open."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from endmark.cli.callers import caller
from endmark.cli.options import OPS_URL, AsJson, Bootstrap, OpsUrl, PipelineFile, kafka_of
from endmark.pipeline.file import load
from endmark.wire.control import Question


def why(
    pipeline: PipelineFile,
    key: Annotated[list[str], typer.Argument(help="COLUMN=VALUE, once for each column of the key.")],
    bootstrap: Bootstrap = None,
    ops_url: OpsUrl = OPS_URL,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for the job's answer.")] = 30.0,
    by: Annotated[str, typer.Option(help="Who asks.", show_default="you")] = "",
    as_json: AsJson = False,
) -> None:
    """Say why a key or its group is open: which stream has not closed it, and what its rows wait for.

    The running job answers from its state, when the batch that reads the question is over.
    """
    from endmark.control.ops_database.database import opened
    from endmark.control.questions.ask import ask
    from endmark.control.questions.askable_keys import keys_of, read_key
    from endmark.control.questions.reasons import sentences

    spec = load(pipeline, asks_relations=False)
    question = Question(read_key(keys_of(spec), key), caller(by))
    with opened(ops_url) as ops:
        kafka = kafka_of(spec.kafka, bootstrap)
        found = ask(ops, kafka, spec.name, spec.control_topic, question, wait)
    if as_json:
        typer.echo(json.dumps({"key": question.key, **found}))
        return
    for answer in found["answers"]:
        for line in sentences(question.key, answer):
            typer.echo(line)
