"""Draws a pipeline as Mermaid text, which GitHub and most documentation tools show as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from endmark.pipeline.model import Pipeline


def drawn(pipeline: Pipeline) -> str:
    """Return the Mermaid text: topics, relations, steps and tables, and the flow between them."""
    lines, last = ["flowchart LR"], "join"
    for side in pipeline.sides:
        stream = pipeline.streams[side]
        lines.append(f'  topic_{side}[("{stream.topic}<br>{stream.format}")]')
        before, arrow = f"topic_{side}", f'-- "{side}" -->'
        for lookup in pipeline.lookups_of(side):
            relation = pipeline.relations[lookup.relation]
            lines += [
                f'  relation_{lookup.relation}[("{relation.table}")]',
                f'  lookup_{lookup.relation}["look up {lookup.relation}<br>{", ".join(lookup.key)}"]',
                f"  {before} {arrow} lookup_{lookup.relation}",
                f"  relation_{lookup.relation} -.-> lookup_{lookup.relation}",
            ]
            before, arrow = f"lookup_{lookup.relation}", "-->"
        if pipeline.join is None:
            last = before
        else:
            lines.append(f"  {before} {arrow} join")
    if (join := pipeline.join) is not None:
        lines.append(f'  join["{join.type} join, {join.preset}<br>{", ".join(join.on)}"]')
    lines += _table(pipeline, last, "results")
    if pipeline.aggregate is not None:
        lines += [
            f'  group["closing group-by<br>{", ".join(pipeline.aggregate.by)}"]',
            f"  {last} --> group",
            *_table(pipeline, "group", "groups"),
            *(_table(pipeline, "group", "running") if pipeline.aggregate.running else []),
        ]
    for table in ("violations", "punctuations", "dead_letters"):
        lines += _table(pipeline, last, table)
    if pipeline.publish is not None:
        lines += [f'  published[("{pipeline.publish.topic}")]', f"  {last} --> published"]
    return "\n".join(lines)


def _table(pipeline: Pipeline, step: str, table: str) -> list[str]:
    return [f'  table_{table}[/"{pipeline.tables.directories[table]}"/]', f"  {step} --> table_{table}"]
