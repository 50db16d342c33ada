"""The directories that the arguments of a frame's sinks name."""

from __future__ import annotations

from pathlib import Path

import pytest

from endmark.errors import ConfigError
from endmark.frame.sinks import directories


@pytest.mark.parametrize("named", ["/a/b", "file:///a/b", "file:/a/b", Path("/a/b"), Path("file:/a/b")])
def test_a_uri_of_a_file_is_its_path(named: Path | str) -> None:
    """It was the name of a directory `./file:`, so a start from elsewhere had another checkpoint."""
    assert directories(path=named, violations=None) == {"path": Path("/a/b")}


@pytest.mark.parametrize("named", ["s3a://b/c", "hdfs://b/c", "file://host/c", "dbfs:/c", Path("s3://b/c")])
def test_a_uri_of_another_scheme_is_refused(named: Path | str) -> None:
    with pytest.raises(ConfigError, match=r"checkpoint: .*/c is no directory of this machine"):
        directories(checkpoint=named)


def test_a_directory_has_one_use() -> None:
    with pytest.raises(ConfigError, match="checkpoint: t is also path; name another directory"):
        directories(path="../" + Path.cwd().name + "/t", checkpoint="t")
    assert directories(path="t", checkpoint="t/c")["path"] == Path("t")
