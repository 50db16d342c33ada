"""The metadata of state names files of the checkpoint where it is now."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from endmark.driver.moved_checkpoint import follow_move

SCHEMA = "state/{operator}/_stateSchema/default/0_10424113"


def metadata(spark: Path, operator: int) -> Path:
    """The file of an operator's metadata, as Spark 4.2 writes it."""
    file = spark / "state" / str(operator) / "_metadata" / "v2" / "0"
    if not file.exists():
        file.parent.mkdir(parents=True)
        path = f"file:{spark}/{SCHEMA.format(operator=operator)}"
        stores = [{"storeName": "default", "numColsPrefixKey": 0, "stateSchemaFilePaths": [path]}]
        told = {"operatorInfo": {"operatorId": operator}, "stateStoreInfo": stores}
        file.write_text(f"v2\n{json.dumps(told, separators=(',', ':'))}")
        file.with_name(".0.crc").write_bytes(b"crc")
    return file


def paths(file: Path) -> list[str]:
    version, _, text = file.read_text().partition("\n")
    assert version == "v2"
    [store] = json.loads(text)["stateStoreInfo"]
    found: list[str] = store["stateSchemaFilePaths"]
    return found


@pytest.fixture
def spark(tmp_path: Path) -> Path:
    """Spark's part of a checkpoint with two operators."""
    found = tmp_path / "checkpoint" / "spark"
    for operator in range(2):
        metadata(found, operator)
    return found


def test_a_copy_names_its_own_files(spark: Path, tmp_path: Path) -> None:
    copy = tmp_path / "a copy of state" / "spark"
    shutil.copytree(spark, copy)
    follow_move(copy)

    for operator in range(2):
        file = metadata(copy, operator)
        assert paths(file) == [f"file:{copy}/{SCHEMA.format(operator=operator)}"]
        assert [each.name for each in file.parent.iterdir()] == ["0"], "its checksum is that of the old file"


def test_a_checkpoint_in_its_place_stays_as_it_is(spark: Path) -> None:
    before = metadata(spark, 0).read_bytes()
    follow_move(spark)

    assert metadata(spark, 0).read_bytes() == before
    assert metadata(spark, 0).with_name(".0.crc").exists()


@pytest.mark.parametrize("end", [b"", b"\xff"])
def test_a_broken_file_is_left_to_spark(spark: Path, tmp_path: Path, end: bytes) -> None:
    file = metadata(spark.rename(tmp_path / "moved"), 0)
    file.write_bytes(broken := file.read_bytes()[:50] + end)
    follow_move(tmp_path / "moved")

    assert file.read_bytes() == broken


def test_a_new_checkpoint_has_nothing_to_follow(tmp_path: Path) -> None:
    follow_move(tmp_path / "spark")

    assert list(tmp_path.iterdir()) == []
