"""The bounds of a pipeline's state, derived from the pipeline file alone.

The rules follow Tucker et al. (TKDE'03) and the safety of continuous join queries (VLDB'06). A stream's rows
are freed when each other stream has closed their key or its progress has left their window. A group is final
when a stream has closed its key and no live row of that stream has it; rows of all streams with this key are
freed then. If rows of the other stream are results even without a partner, the other stream must have closed
the key too. The bound of groups is also the bound of the closed keys that wait to be announced. Groups by
another key than the join's are final when a stream that has a row in every result has promised them.

The results of a stage are a derived stream of the next one. It closes a key when a stream of the earlier
stage has promised it. Its rows have the event time of the first input there. So its progress follows the
oldest row of this input in state, and moves if something frees these rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.errors import ConfigError
from endmark.pipeline.boundedness.groups import by_patterns, result_groups_state, unless_written
from endmark.pipeline.boundedness.input import without
from endmark.pipeline.boundedness.inputs import inputs_of
from endmark.pipeline.boundedness.keys import closed_keys_state, seen_values_state
from endmark.pipeline.boundedness.rows import rows_state
from endmark.pipeline.boundedness.state import CLOSED_KEYS, State

if TYPE_CHECKING:
    from endmark.pipeline.model import Pipeline


def states(pipeline: Pipeline) -> list[State]:
    """Return all the state that a pipeline keeps from one batch to the next."""
    stages = [(stage, inputs_of(stage)) for stage in pipeline.stages]
    rows = [
        rows_state(side, without(inputs, side), stage.join.preset, stage.field)
        for stage, inputs in stages
        if stage.join is not None
        for side in inputs
    ]
    closed = [
        closed_keys_state(stage, side)
        for stage, inputs in stages
        for side in inputs
        if side.names_keys and side.name in pipeline.inputs
    ]
    groups = [result_groups_state(each, stages[-1][1]) for each in pipeline.groups]
    groups += [unless_written(each, by_patterns(each)) for each in pipeline.rollups]
    streams = [side for _, inputs in stages for side in inputs if side.name in pipeline.inputs]
    deduplicated = [(side, pipeline.deduplicate_of(side.name)) for side in streams]
    seen = [seen_values_state(side, *found) for side, found in deduplicated if found is not None]
    return [*rows, *groups, *seen, *closed]


def require_bounded(pipeline: Pipeline) -> None:
    """Refuse rows and groups that nothing ever frees, unless the pipeline file accepts them.

    Closed keys are no reason to refuse a pipeline, since they are small and come with punctuations.

    Raises:
        ConfigError: some state is unbounded. The error names this state, the reason, and each change that
            would bound all of it.
    """
    unbounded = [
        state
        for state in states(pipeline)
        if state.holds != CLOSED_KEYS and not state.bounded_by and not state.declared
    ]
    if not unbounded or pipeline.unbounded_state == "allow":
        return
    mends = [mend for mend in unbounded[0].mends if all(mend in state.mends for state in unbounded)]
    raise ConfigError(
        f"{'; '.join(map(str, unbounded))}; "
        + ", or ".join([*([", ".join(mends)] if mends else []), "accept it with unbounded_state: allow"])
    )
