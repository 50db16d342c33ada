"""Draws a pipeline as Mermaid text, which GitHub and most documentation tools show as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.pipeline.steps.aggregate import AggregateStep
from endmark.pipeline.steps.join import JoinStep
from endmark.pipeline.steps.lookup import LookupStep
from endmark.pipeline.steps.rows import RowStep
from endmark.pipeline.steps.union import UnionStep
from endmark.pipeline.tables import RESERVED

if TYPE_CHECKING:
    from endmark.pipeline.model import Pipeline
    from endmark.pipeline.steps.step import Step


def drawn(pipeline: Pipeline) -> str:
    """Return the Mermaid text: topics, relations, steps and tables, and the flow between them."""
    lines = ["flowchart LR"]
    for name, stream in pipeline.streams.items():
        lines.append(f'  stream_{name}[("{name}<br>topic {stream.topic}, {stream.format}")]')
    for name, step in pipeline.steps.items():
        lines.append(f'  step_{name}["{name}<br>{about(step)}"]')
        lines += [f"  {_node(pipeline, given)} --> step_{name}" for given in step.inputs]
        if isinstance(step, LookupStep):
            relation = step.lookup.relation
            lines += [
                f'  relation_{relation}[("{relation}<br>table {pipeline.relations[relation].table}")]',
                f"  relation_{relation} -.-> step_{name}",
            ]
    for name, table in pipeline.tables.items():
        lines += _table(name, _node(pipeline, table.source or name))
    for name in RESERVED:
        lines += _table(name, _node(pipeline, pipeline.flow.results))
    for name, published in pipeline.publish.items():
        topic = f"published_{name}"
        lines += [f'  {topic}[("topic {published.topic}")]', f"  {_node(pipeline, name)} --> {topic}"]
    return "\n".join(lines)


def about(step: Step) -> str:
    """Say in a few words what a step does."""
    match step:
        case RowStep():
            return _parts(step)
        case LookupStep():
            return f"look up {', '.join(step.lookup.key)}"
        case UnionStep():
            return "union"
        case JoinStep():
            return f"{step.type} join on {', '.join(step.on)}, {step.preset}"
        case AggregateStep():
            return f"group by {', '.join(step.aggregate.by)}"


def _parts(step: RowStep) -> str:
    parts = {
        "filter": step.where is not None,
        f"derive {', '.join(step.derive)}": step.derive,
        f"select {', '.join(step.select)}": step.select,
        f"drop {', '.join(step.drop)}": step.drop,
        f"deduplicate by {', '.join(step.deduplicate.by if step.deduplicate else ())}": step.deduplicate,
    }
    return ", ".join(part for part, there in parts.items() if there)


def _node(pipeline: Pipeline, name: str) -> str:
    return f"stream_{name}" if name in pipeline.streams else f"step_{name}"


def _table(name: str, source: str) -> list[str]:
    return [f'  table_{name}[/"{name}"/]', f"  {source} --> table_{name}"]
