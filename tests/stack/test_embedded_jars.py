from __future__ import annotations

import re
import shutil
import threading
from pathlib import Path

import pytest

from endmark.embedded import jars as embedded_jars
from endmark.embedded.java import require_java
from endmark.errors import MissingPartError

SMALL = "spark/commons-pool2-2.13.1.jar"


def names(paths: list[Path]) -> set[str]:
    return {path.name for path in paths}


def a_home_with_pins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, revision: str) -> Path:
    """An empty cache, and pins that name one small jar."""
    (tmp_path / "ivy.xml").write_text(f"""
        <ivy-module version="2.0">
          <info organisation="endmark" module="jars"/>
          <configurations><conf name="spark"/></configurations>
          <dependencies>
            <dependency org="org.apache.commons" name="commons-pool2" rev="{revision}" conf="spark->master"/>
          </dependencies>
        </ivy-module>""")
    monkeypatch.setattr(embedded_jars, "_PINS", tmp_path)
    known = Path(embedded_jars.__file__).with_name("jars.sha256").read_text().splitlines()
    sums = tmp_path / "jars.sha256"
    sums.write_text("".join(f"{line}\n" for line in known if line.endswith(f" {SMALL}")))
    monkeypatch.setenv("ENDMARK_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_spark_gets_its_jars_and_none_that_spark_ships(jars: list[Path]) -> None:
    assert names(jars) == {
        "commons-pool2-2.13.1.jar",
        "delta-spark_4.2_2.13-4.4.0.jar",
        "delta-storage-4.4.0.jar",
        "hadoop-bare-naked-local-fs-0.1.0.jar",
        "kafka-clients-3.9.2.jar",
        "spark-sql-kafka-0-10_2.13-4.2.0.jar",
        "spark-token-provider-kafka-0-10_2.13-4.1.0-preview1.jar",
    }


def test_the_broker_gets_a_whole_class_path() -> None:
    found = names(embedded_jars.broker_jars(print))
    assert {"kafka_2.13-4.1.1.jar", "log4j-slf4j-impl-2.24.3.jar"} <= found
    # A jar of packaging "bundle", which is easily left out.
    assert any(name.startswith("snappy-java-") for name in found)


def test_a_second_call_is_silent(jars: list[Path]) -> None:
    said: list[str] = []
    assert embedded_jars.spark_jars(said.append) == jars
    assert said == []


def test_a_jar_that_was_changed_is_refused_whenever_it_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, jars: list[Path]
) -> None:
    """One changed byte, one jar more and one less are told by the jar's name."""
    a_home_with_pins(monkeypatch, tmp_path, "2.13.1")
    pins = embedded_jars.pins_digest(tmp_path)
    cached = tmp_path / "home" / "jars" / pins / "spark"
    cached.mkdir(parents=True)
    [small] = [jar for jar in jars if jar.name == Path(SMALL).name]
    good = small.read_bytes()
    kept = cached / small.name

    kept.write_bytes(good)
    assert embedded_jars.spark_jars(print) == [kept]
    kept.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(MissingPartError, match=rf"{small.name} is not the jar .* remove {cached}"):
        embedded_jars.spark_jars(print)
    kept.write_bytes(good)
    (cached / "more-1.0.jar").write_bytes(good)
    with pytest.raises(MissingPartError, match=r"more-1\.0\.jar is not the jar"):
        embedded_jars.spark_jars(print)
    (cached / "more-1.0.jar").unlink()
    kept.unlink()
    with pytest.raises(MissingPartError, match=f"{small.name} is not the jar"):
        embedded_jars.spark_jars(print)


def test_a_jar_that_a_repository_gives_changed_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = a_home_with_pins(monkeypatch, tmp_path, "2.13.1")
    sums = tmp_path / "jars.sha256"
    sums.write_text(f"{'0' * 64}  {SMALL}\n")
    with pytest.raises(MissingPartError, match=r"commons-pool2-2\.13\.1\.jar is not the jar"):
        embedded_jars.spark_jars(print)
    assert list(home.glob("jars/**/*.jar")) == []


@pytest.mark.parametrize(
    ("folder", "least"),
    [
        ("jobs/endmark/embedded", 9),
        ("benchmarks/endmark_benchmarks/contenders", 11),
        ("tests/containers/standins", 2),
    ],
)
def test_every_pinned_jar_has_a_checksum(folder: str, least: int) -> None:
    """Each dependency of an `ivy.xml` has one in each of its configurations."""
    pinned = Path(__file__).parents[2] / folder
    sums = (pinned / "jars.sha256").read_text().splitlines()
    known = {line.split()[1] for line in sums}
    assert len(known) == len(sums)
    pins = re.findall(
        r'<dependency .*name="(.+?)" rev="(.+?)" conf="(.+?)"', (pinned / "ivy.xml").read_text()
    )
    assert len(pins) >= least
    for name, revision, mappings in pins:
        for mapping in mappings.split(";"):
            jar = f"{mapping.partition('->')[0]}/{name}-{revision}"
            assert any(each.startswith(jar) for each in known), jar


def test_two_callers_fetch_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = a_home_with_pins(monkeypatch, tmp_path, "2.13.1")
    said: list[str] = []
    found: list[set[str]] = []
    callers = [
        threading.Thread(target=lambda: found.append(names(embedded_jars.spark_jars(said.append))))
        for _ in range(2)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert found == [{"commons-pool2-2.13.1.jar"}] * 2
    assert sum(line.startswith("fetched ") for line in said) == 1
    assert sum(line.startswith("waiting ") for line in said) == 1
    assert not (home / "ivy").exists()


def test_a_jar_that_is_nowhere_is_named_and_nothing_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = a_home_with_pins(monkeypatch, tmp_path, "99.99")
    for _ in range(2):
        with pytest.raises(MissingPartError, match=r"commons-pool2;99\.99: not found") as caught:
            embedded_jars.spark_jars(print)
        assert "\n" not in str(caught.value)
    assert list(home.glob("jars/**/*.jar")) == []


def test_no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free_port: int) -> None:
    a_home_with_pins(monkeypatch, tmp_path, "2.13.1")
    monkeypatch.setenv("JDK_JAVA_OPTIONS", f"-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort={free_port}")
    with pytest.raises(MissingPartError, match=r"cannot fetch Spark's .*commons-pool2.*check the network"):
        embedded_jars.spark_jars(print)


def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ENDMARK_HOME", str(tmp_path / "file"))
    with pytest.raises(MissingPartError, match="Not a directory; set ENDMARK_HOME"):
        embedded_jars.spark_jars(print)


def test_java_is_found() -> None:
    assert require_java().name == "java"


def test_no_java_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingPartError, match="Java 17 or newer is needed but `java` was not found on PATH"):
        require_java()


def test_a_java_home_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingPartError, match=r"JAVA_HOME is .* no bin/java"):
        require_java()


@pytest.mark.parametrize(("says", "means"), [("1.8.0_402", "Java 8"), ("11.0.22", "Java 11")])
def test_an_old_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str, means: str) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!{shutil.which('sh')}\necho 'openjdk version \"{says}\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingPartError, match=f"Java 17 or newer is needed but .* is {means};"):
        require_java()
