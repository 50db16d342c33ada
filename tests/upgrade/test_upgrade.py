"""Jobs go on with the checkpoints and tables of each earlier version."""

from __future__ import annotations

from pathlib import Path

import pytest

from upgrade.kept import VERSIONS, restored


@pytest.mark.parametrize("archive", sorted(VERSIONS.glob("*.tar.gz")), ids=lambda archive: str(archive.name))
def test_jobs_go_on_with_the_files_of_a_version(archive: Path, tmp_path: Path) -> None:
    with restored(archive, tmp_path) as homes:
        assert homes
        for home in homes:
            last = home.last_batch
            assert home.run() is None, home.name
            assert home.last_batch > last, f"{home.name} had nothing left to read"
            assert (wrong := home.verdict()) is None, wrong
