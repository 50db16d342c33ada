"""All faults by their names, in the order of the docs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from processes import driver_faults, server_faults, world_faults
from processes.fault import Fault, Marker
from processes.rig import Rig

CONTROL = "none"


@contextmanager
def _nothing(_rig: Rig, _chance: Random, marker: Marker) -> Iterator[None]:
    marker.landed = True
    yield


_EVERY = {
    CONTROL: Fault("F0", "nothing is broken: the control", _nothing, seconds=(5, 5), weight=0),
    **driver_faults.FAULTS,
    **server_faults.FAULTS,
    **world_faults.FAULTS,
}
FAULTS = dict(sorted(_EVERY.items(), key=lambda named: int(named[1].number[1:])))
