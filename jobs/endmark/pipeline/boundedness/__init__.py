"""The bounds of a pipeline's state, derived from the pipeline file alone."""

from endmark.pipeline.boundedness.bound import Bound
from endmark.pipeline.boundedness.state import State
from endmark.pipeline.boundedness.states import require_bounded, states

__all__ = ["Bound", "State", "require_bounded", "states"]
