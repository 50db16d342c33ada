"""`endmark init` writes a pipeline file from samples of topics and from master tables."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from endmark.cli.options import BROKER, AsJson, Bootstrap, KafkaFile, Output, kafka_in
from endmark.errors import ConfigError
from endmark.pipeline.file import load
from endmark.pipeline.formats import FORMATS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.draft.samples import Sample
    from endmark.draft.text import Draft
    from endmark.kafka.cluster import ClusterOrAddress
    from endmark.pipeline import Pipeline
    from endmark.wire.rejection import Rejection


@dataclass(frozen=True)
class _Unread:
    """The records of a sample that the drafted file cannot read."""

    stream: str
    number: int
    first: Rejection


def init(
    file: Annotated[Path, typer.Argument(help="Pipeline file to write.")],
    bootstrap: Bootstrap = None,
    kafka_file: KafkaFile = None,
    topics: Annotated[
        str, typer.Option(help="Topics to read first and last records of, such as orders,payments.")
    ] = "",
    sample: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC=FILE", help="File with one record of a topic on each line; may be repeated."
        ),
    ] = None,
    database: Annotated[
        str | None,
        typer.Option(
            help="URL of the master tables, such as mysql://user:password@host/shop.",
            envvar="ENDMARK_RELATION_URL",
            show_envvar=True,
        ),
    ] = None,
    tables: Annotated[
        str, typer.Option(help="Master tables to look up, such as customers,countries; else all that fit.")
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a pipeline file from records of topics and from master tables.

    The file is valid. What it guesses is in its comments: column types, event time, lookups, and the join.
    """
    from endmark.draft.draft import draft
    from endmark.draft.samples import sample_topics

    if file.exists() and not force:
        raise ConfigError(f"{file} exists; name another file, or overwrite it with --force")
    if tables and database is None:
        raise ConfigError("--tables: give the URL of their --database, too")
    kafka = kafka_in(kafka_file, bootstrap)
    named, files = _names(topics), [_of_file(each) for each in sample or ()]
    if not named and not files:
        named = _asked(kafka, as_json=as_json)
    samples = [*(sample_topics(kafka, named) if named else ()), *files]
    drafted = draft(file.stem, samples, database, _names(tables))
    spec = _checked(drafted)
    unread = [
        found
        for stream, each in zip(drafted.streams, samples, strict=True)
        if (found := _unread(spec, stream.name, each))
    ]
    _write(file, drafted.text, force=force)
    _report(file, drafted, unread, kafka, as_json=as_json)


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(name for each in text.split(",") if (name := each.strip())))


def _of_file(text: str) -> Sample:
    from endmark.draft.samples import sample_file

    topic, equals, file = text.partition("=")
    if not (topic and equals and file):
        raise ConfigError(f"--sample {text}: write TOPIC=FILE, such as orders=orders.jsonl")
    return sample_file(topic, Path(file))


def _asked(kafka: ClusterOrAddress, *, as_json: bool) -> list[str]:
    """Ask for the topics, if a person is there.

    Raises:
        ConfigError: nobody is, or nothing was answered.
    """
    from endmark.draft.samples import topics_at

    if as_json or not sys.stdin.isatty():
        raise ConfigError("give --topics orders,payments, or --sample orders=orders.jsonl")
    typer.echo(f"topics at {kafka}: {', '.join(topics_at(kafka)) or 'none'}", err=True)
    if not (found := _names(typer.prompt("Topics to read, with commas between them", err=True))):
        raise ConfigError("a pipeline has at least one topic")
    return found


def _checked(drafted: Draft) -> Pipeline:
    """Check the text of a draft as `endmark validate` does.

    Raises:
        ConfigError: it is not valid, since names of topics, columns or tables do not go together.
    """
    from endmark.draft.draft import URL_VARIABLE

    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "drafted.yaml")
        file.write_text(drafted.text, encoding="utf-8")
        try:
            return load(file, {URL_VARIABLE: "sqlite://"})
        except ConfigError as error:
            why = str(error).removeprefix(f"{file}: ")
            raise ConfigError(f"no pipeline can be drafted from these: {why}") from error


def _unread(spec: Pipeline, name: str, sample: Sample) -> _Unread | None:
    import pyarrow as pa

    stream, key = spec.streams[name], spec.stage_of(name).key
    values = [record.value for record in sample.records if record.value is not None]
    parser = FORMATS[stream.format].parser(stream, name, key, (), None)
    found = parser.parse(pa.array(values, pa.binary())).rejections
    return _Unread(name, len(found), found[0]) if found else None


def _write(file: Path, text: str, *, force: bool) -> None:
    try:
        with file.open("w" if force else "x", encoding="utf-8") as written:
            written.write(text)
    except FileExistsError:
        raise ConfigError(f"{file} exists; name another file, or overwrite it with --force") from None


def _report(
    file: Path, drafted: Draft, unread: Sequence[_Unread], kafka: ClusterOrAddress, *, as_json: bool
) -> None:
    from endmark.draft.draft import URL_VARIABLE

    variables = [URL_VARIABLE] if drafted.url is not None and URL_VARIABLE in drafted.url else []
    if as_json:
        Output(as_json).emit(
            {
                "file": str(file),
                "pipeline": drafted.name,
                "streams": {
                    each.name: {"topic": each.topic, "event_time": each.event_time, "rows": each.rows}
                    for each in drafted.streams
                },
                "relations": [each.name for each in drafted.relations],
                "unread": {each.stream: each.number for each in unread},
                "set": [each for each in variables if each not in os.environ],
            }
        )
        return
    typer.echo(f"{file}: pipeline {drafted.name} is valid; its comments say what was guessed")
    for stream in drafted.streams:
        on = f", punctuated on {', '.join(stream.punctuated_on)}" if stream.punctuated_on else ""
        typer.echo(
            f"stream {stream.name}: {stream.format}, {len(stream.columns)} columns by {stream.rows:,} rows, "
            f"event time {stream.event_time}{on}"
        )
        if stream.published:
            typer.echo(f"stream {stream.name}: {stream.notes['topic']}")
    for lookup in drafted.steps.lookups:
        typer.echo(f"lookup of {lookup.relation.table} by {', '.join(lookup.key)}")
        if lookup.relation.unfit:
            typer.echo(f"to do before a run, which is refused otherwise: {lookup.relation.unfit}")
    if drafted.steps.join:
        typer.echo(f"join of all streams on {', '.join(drafted.steps.join.on)}")
    for each in unread:
        typer.echo(
            f"stream {each.stream}: records of the sample that would be dead letters: {each.number:,}, "
            f"first: {each.first.reason}: {each.first.error}"
        )
    for variable in variables:
        typer.echo(
            f"the URL has a password, so the file has ${{{variable}}}: set {variable} in the environment to "
            f"the URL, or {variable}_FILE to the name of a file that holds it"
        )
    option = "" if str(kafka) == BROKER else f" --broker {kafka}"
    typer.echo(f"next: endmark run {file} --available-now{option}")
