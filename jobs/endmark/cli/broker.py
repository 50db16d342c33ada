"""`endmark broker` runs a Kafka broker on this machine until it is stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from endmark.cli.options import BROKER_PORT, HOME, AsJson, Output
from endmark.errors import MissingPartError
from endmark.private import keep_private

_POLL_SECONDS = 0.5


def broker(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of this machine.")] = BROKER_PORT,
    directory: Annotated[
        Path, typer.Option("--dir", help="Directory of the topics, kept between runs; for you alone.")
    ] = HOME / "broker",
    as_json: AsJson = False,
) -> None:
    """Run a Kafka broker for this machine alone, until Ctrl-C or SIGTERM.

    It is one broker without copies of records, to try pipelines with. Every user of this machine can reach
    it. Create topics before you use them.
    """
    from endmark.driver.stop import StopRequest
    from endmark.embedded.broker import Broker
    from endmark.embedded.jars import broker_jars

    output, stop = Output(as_json), StopRequest()
    with stop.listening():
        try:
            broker_jars(output.say)
            keep_private()  # after fetching the jars, which other users of this installation may share
            with Broker(directory, port) as running:
                _tell(output, port, directory, as_json=as_json)
                stop.wait_quietly()
                while not stop.event.wait(_POLL_SECONDS):
                    if not running.running:
                        raise MissingPartError(f"the broker has ended by itself; see {directory}/broker.log")
                output.say("stopping the broker")
        except KeyboardInterrupt:
            output.say("stopped while the broker was starting")


def _tell(output: Output, port: int, directory: Path, *, as_json: bool) -> None:
    address = f"localhost:{port}"
    if as_json:
        output.emit({"event": "ready", "broker": address, "directory": str(directory.absolute())})
        return
    typer.echo(address)
    output.say(f"the broker answers there, and keeps its topics in {directory}; Ctrl-C stops it")
    option = "" if port == BROKER_PORT else f" --broker {address}"
    output.say(f"next, in another terminal: endmark init FILE{option} --topics TOPIC,TOPIC")
