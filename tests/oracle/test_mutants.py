"""The seeded faults of `make oracle` still fit the source. Sowing them takes minutes, so it is done there."""

from __future__ import annotations

import pytest

from support.mutation import PACKAGES, Mutant, load, named_files

MUTANTS = load()
ROOTS = [package.parent for package in PACKAGES]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_fault_fits_the_source(mutant: Mutant) -> None:
    """The line a fault replaces is there, once, and the fault changes it. The oracle has tests for it."""
    [file] = [root / mutant.file for root in ROOTS if (root / mutant.file).exists()]
    assert file.read_text().count(mutant.old) == 1
    assert mutant.new != mutant.old
    assert named_files(mutant.tests)  # without any, `make oracle` would end with an error
