"""The arguments, options and output that several commands share."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from endmark.kafka.cluster import ADDRESSES
from endmark.storage import Location, checkpoint_location, location

if TYPE_CHECKING:
    from endmark.kafka.cluster import ClusterOrAddress
    from endmark.pipeline.kafka import Kafka

PipelineFile = Annotated[Path, typer.Argument(help="Pipeline file.")]
PipelineOrExample = Annotated[Path, typer.Argument(help="Pipeline file.", show_default="the auction example")]


def addresses(given: str | None) -> str | None:
    """Return the addresses of brokers that an option has given, if they are such."""
    if given is not None and re.fullmatch(ADDRESSES, given) is None:
        raise typer.BadParameter(f"{given!r} must be host:port, or several of these separated by commas")
    return given


Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="FIELD=VALUE", help="Set a field, such as steps.matched.window=10s; may be repeated."
    ),
]
Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "--broker",
        help="Addresses of Kafka brokers, host:port, separated by commas.",
        callback=addresses,
        envvar="ENDMARK_BOOTSTRAP",
        show_default="kafka.bootstrap of the file, or localhost:9092",
    ),
]
KafkaFile = Annotated[
    Path | None,
    typer.Option(
        "--kafka", help="File with a section `kafka`, such as a pipeline file.", envvar="ENDMARK_KAFKA"
    ),
]
Warehouse = Annotated[
    str | None,
    typer.Option(
        help="Directory of the Delta tables, or its URL in an object store: s3://BUCKET/PATH.",
        envvar="ENDMARK_WAREHOUSE",
        show_default="var/NAME/warehouse",
    ),
]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        help="Directory of the checkpoint, or its URL in an object store: s3://BUCKET/PATH.",
        envvar="ENDMARK_CHECKPOINT",
        show_default="var/NAME/checkpoint",
    ),
]
OpsUrl = Annotated[
    str, typer.Option(help="URL of the ops database, which pipelines may share.", envvar="ENDMARK_OPS_URL")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]

BROKER_PORT = 9092
BROKER = f"localhost:{BROKER_PORT}"
HOME = Path("var")
OPS_URL = f"sqlite:///{HOME / 'ops.db'}"


def home_of(pipeline: str) -> Path:
    """Return the directory of all that a pipeline of this name keeps, unless an option says otherwise."""
    return HOME / pipeline


def warehouse_of(pipeline: str, given: str | None) -> Location:
    """Return the directory of a pipeline's tables: the one that an option has given, or the default.

    Raises:
        ConfigError: the option is a URL, but not that of a directory in an object store.
    """
    return home_of(pipeline) / "warehouse" if given is None else location(given)


def checkpoint_of(pipeline: str, given: str | None) -> Location:
    """Return the checkpoint of a pipeline: the one that an option has given, or the default.

    Raises:
        ConfigError: the option is a URL, but not that of a directory in S3 that Spark can open.
    """
    return home_of(pipeline) / "checkpoint" if given is None else checkpoint_location(given)


def kafka_of(section: Kafka | None, bootstrap: str | None) -> ClusterOrAddress:
    """Return the cluster of a command.

    Args:
        section: the section `kafka` of a file; `None` without one.
        bootstrap: the addresses of brokers, which take the place of the section's; `None` if none are given.
    """
    return bootstrap or BROKER if section is None else section.cluster(bootstrap)


def kafka_in(file: Path | None, bootstrap: str | None) -> ClusterOrAddress:
    """Return the cluster of a command without a pipeline file.

    Args:
        file: a file with a section `kafka`; `None` without one.
        bootstrap: as in `kafka_of`.

    Raises:
        ConfigError: the file cannot be read, or has no such section.
    """
    if file is None:
        return kafka_of(None, bootstrap)
    from endmark.pipeline.file import load_kafka  # commands without a file start without the model

    return kafka_of(load_kafka(file), bootstrap)


class Output:
    """Progress for people on stderr, or JSON lines for programs on stdout."""

    def __init__(self, as_json: bool) -> None:
        self._json = as_json

    def say(self, text: str) -> None:
        if self._json:
            self.emit({"event": text})
        else:
            typer.echo(f"{time.strftime('%H:%M:%S')} {text}", err=True)

    def emit(self, value: Any) -> None:
        typer.echo(json.dumps(value, default=str))
