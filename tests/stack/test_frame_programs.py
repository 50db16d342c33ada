"""Random programs of frame steps in Spark itself, against DuckDB."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from py4j.java_gateway import GatewayClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from endmark.errors import ConfigError
from endmark.frame import PunctuatedFrame
from endmark.pipeline import Relation
from endmark.types import JoinType
from support.cases import drawn, spark_cases
from support.delta_batches import rows_by_batch
from support.hashable_rows import hashable_row
from support.program_streams import DOMAIN, ProgramBatch, Row, matches, meaning, streams
from support.programs import RELATION, Program, Step, programs
from support.relations import Database

BATCHES = 3
SCHEMA = "a bigint, b bigint, c bigint, at timestamp, over string"


@st.composite
def worlds(draw: st.DrawFn, *, joined: bool) -> tuple[Program, dict[str, list[ProgramBatch]]]:
    """A program with a join, or one with a lookup and groups that run."""
    program = draw(programs(joined=joined).filter(_is_joined if joined else _is_grouped))
    program = replace(program, running=not joined)
    return program, {side: draw(streams(BATCHES)) for side in program.sides}


def _is_joined(program: Program) -> bool:
    return program.kind is not None


def _is_grouped(program: Program) -> bool:
    return program.by != () and any(step.looks_up for step in program.steps["left"])


def write(directory: Path, batches: list[ProgramBatch]) -> None:
    """A file for each batch, with control rows in which other columns hold something, too."""
    directory.mkdir(parents=True)
    for number, batch in enumerate(batches):
        rows: list[dict[str, Any]] = [
            dict(zip(DOMAIN, row, strict=True)) | {"at": "2026-01-01T00:00:00Z"} for row in batch.rows
        ]
        rows += [{"a": at % 2, "b": None, "over": text} for at, text in enumerate(batch.texts)]
        file = directory / f"{number}.json"
        file.write_text("\n".join(map(json.dumps, rows)) or "\n")
        os.utime(file, (1e9 + number, 1e9 + number))  # Spark reads files in the order of their age


def taken(frame: PunctuatedFrame, steps: list[Step], relation: Relation, *beside: str) -> PunctuatedFrame:
    """A frame after steps, of which each `select` keeps the columns `beside`, too."""
    for step in steps:
        if step.condition is not None:
            frame = frame.where(step.condition)
            continue
        if step.looks_up is not None:
            column, how = step.looks_up
            frame = frame.lookup_join(relation, on=column, how=how, prefix="r")
            continue
        columns = {
            each.name: F.expr(each.sql) if each.plain is None else F.col(each.plain) for each in step.shown
        }
        if step.adds is not None:
            frame = frame.with_column(step.adds, columns[step.adds])
        else:
            frame = frame.select(*(each.alias(name) for name, each in columns.items()), *beside)
    return frame


def run(spark: SparkSession, program: Program, relation: Relation, base: Path) -> None:
    """The program as a query, to the end of what is there."""

    def side(name: str) -> PunctuatedFrame:
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return taken(
            PunctuatedFrame(reader.json(str(base / name)), "over"), program.steps[name], relation, "at"
        )

    frame = side("left")
    if program.kind is not None:
        frame = frame.stream_join(
            side("right"),
            on=[program.on],
            how=program.kind,
            time="at",
            window=None,
        )
        frame = taken(frame, program.steps["after"], relation)
    frame = frame.select(*program.shown["after"])
    if program.by:
        frame = frame.aggregate(
            program.by,
            ordered_by=program.ordered_by,
            running=program.running,
            **program.measures,
        )
    query = frame.write_delta(
        base / "rows",
        base / "checkpoint",
        punctuations=base / "said",
        dead_letters=base / "letters",
        available_now=True,
    )
    query.awaitTermination()


def test_programs_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Some with a join and some with groups: the rows are DuckDB's, exactly once though a batch is repeated;
    none follows a punctuation that matches it; each text that is none is a dead letter, once."""
    database = Database(f"sqlite:///{tmp_path / 'relation.db'}")
    database.create("relation", "k BIGINT PRIMARY KEY, v BIGINT NOT NULL", RELATION)
    declared = {"url": database.url, "table": "relation", "key": "k", "columns": {"k": "long", "v": "long"}}
    relation = Relation.model_validate(declared)
    count = spark_cases(1)
    found = [drawn(worlds(joined=joined), count) for joined in (False, True)]
    for number, (program, came) in enumerate([world for each, _ in found for world in each]):
        base = tmp_path / str(number)
        for side, batches in came.items():
            write(base / side, batches)
        run(spark, program, relation, base)
        last = max((base / "checkpoint/spark/commits").glob("[0-9]*"), key=lambda file: int(file.name))
        for file in (last, last.with_name(f".{last.name}.crc")):
            file.unlink(missing_ok=True)
        run(spark, program, relation, base)
        _check(program, came, base, f"{program}\n{came}\nseeds {[seed for _, seed in found]}")


def _check(program: Program, came: dict[str, list[ProgramBatch]], base: Path, about: str) -> None:
    columns = program.columns
    rows, said, letters = (rows_by_batch(base / table) for table in ("rows", "said", "letters"))
    if program.running:
        _check_running(program, came, rows, about)
        rows = {number: [row for row in each if row["final"]] for number, each in rows.items()}
    out = Counter(hashable_row(row[name] for name in columns) for each in rows.values() for row in each)
    answer = program.answer({side: [row for each in came[side] for row in each.rows] for side in came})
    assert out <= answer, about
    if not program.by and program.kind in (None, JoinType.INNER, JoinType.SEMI):
        assert out == answer, about
    for batch, texts in said.items():
        later = [row for number, each in rows.items() if number > batch for row in each]
        for text in texts:
            promise = meaning(text["punctuation"], columns)
            assert promise is not None, about
            assert not [row for row in later if matches(promise, row)], about
    sent = [text for batches in came.values() for each in batches for text in each.texts]
    wrong = Counter(text for text in sent if meaning(text) is None)
    assert Counter(row["value"].decode() for each in letters.values() for row in each) == wrong, about


def _check_running(
    program: Program, came: dict[str, list[ProgramBatch]], rows: dict[int, list[dict[str, Any]]], about: str
) -> None:
    """Assert that the latest row of each group is right, and that no row follows a final one."""
    latest: dict[Row, dict[str, Any]] = {}
    for row in sorted((row for each in rows.values() for row in each), key=lambda row: int(row["batch"])):
        key = tuple(row[name] for name in program.by)
        assert key not in latest or not latest[key]["final"], about
        assert key not in latest or latest[key]["batch"] < row["batch"], about
        latest[key] = row
    found = Counter(hashable_row(row[name] for name in program.columns) for row in latest.values())
    assert found == program.answer({"left": [row for each in came["left"] for row in each.rows]}), about


def test_a_frame_refuses_what_would_lose_punctuations(spark: SparkSession, tmp_path: Path) -> None:
    """Before a query starts, with the step that is wrong. Rows stay with Spark: conditions become one filter
    below the one place where texts are read, and there is none where names have not changed."""
    (tmp_path / "in").mkdir()
    source = spark.read.schema("A bigint, b string, over string").json(str(tmp_path / "in"))
    database = Database(f"sqlite:///{tmp_path / 'relation.db'}")
    database.create("r", "k VARCHAR(9) PRIMARY KEY, v BIGINT", [])
    declared = {"url": database.url, "table": "r", "key": "k", "columns": {"k": "string", "v": "long"}}
    relation = Relation.model_validate(declared)
    collated = PunctuatedFrame(source.withColumn("c", F.expr("b collate UTF8_LCASE")), "over")
    shout = F.udf(lambda text: text.upper())
    frame = PunctuatedFrame(source, "over")
    refused: dict[str, Callable[[], object]] = {
        "comes along by itself": lambda: frame.select("*"),
        "one name": lambda: frame.select("a", F.col("b").alias("A")),
        "makes other rows of a row": lambda: frame.select(F.explode(F.array("a"))),
        "of a column that this step makes": lambda: frame.select(F.col("a").alias("x"), F.expr("x + 1")),
        "is the column of punctuations": lambda: frame.with_column("OVER", F.lit("")),
        "column 'A' is bigint; cast it": lambda: PunctuatedFrame(source, "A"),
        "no column 'said'": lambda: PunctuatedFrame(source, "said"),
        "on: column 'c' has the collation UTF8_LCASE": lambda: collated.lookup_join(relation, on="c"),
        "aggregate: column 'c' has the coll": lambda: collated.aggregate(
            "A", n={"first": "b"}, ordered_by="c"
        ),
        "the left frame is no stream": lambda: frame.stream_join(frame, on="A", time="A", window=None),
        "other: it is a DataFrame": lambda: frame.stream_join(
            source,  # type: ignore[arg-type]
            on="A",
            time="A",
            window=None,
        ),
        "aggregate: the frame is no stream": lambda: frame.aggregate("A", n="count"),
        "^the frame is no stream; read it by": lambda: frame.write_delta(tmp_path / "t", tmp_path / "c"),
        "columns A, a have one name": lambda: frame.aggregate("A", a="count"),
        "columns N, n have one name": lambda: frame.aggregate("A", n="count", N={"max": "b"}),
        "columns Batch, batch have one name": lambda: frame.aggregate("A", running=True, Batch="count"),
        "columns over, over have one name": lambda: frame.aggregate("A", over="count"),
        "trigger_seconds: '1 second' is no": lambda: frame.write_delta(
            tmp_path / "t",
            tmp_path / "c",
            trigger_seconds="1 second",  # type: ignore[arg-type]
        ),
        "checkpoint: s3a://b/c is no directory": lambda: frame.write_delta(tmp_path, "s3a://b/c"),
        "checkpoint: gs://b/c is no directory": lambda: frame.write_kafka("none:1", "none", "gs://b/c"),
        "dead_letters: .* is also punctuations": lambda: frame.write_delta(
            tmp_path / "t", tmp_path / "c", punctuations=tmp_path / "p", dead_letters=f"file://{tmp_path}/p"
        ),
        "where: Spark would call a Python function": lambda: frame.where(shout(F.col("b")) == "K"),
        "select: Spark would call a Python function": lambda: frame.select(
            "a", F.lower(shout("b")).alias("c")
        ),
        "with_column: Spark would call a Python function": lambda: frame.with_column("c", shout("b")),
        "with_column: .* _metadata": lambda: frame.with_column("c", F.col("_metadata.file_name")),
        "column i is interval year, which": lambda: PunctuatedFrame(
            source.withColumn("i", F.expr("interval 1 year")), "over"
        ),
        "where: a join takes a text in DuckDB's SQL, such as": lambda: frame.stream_join(
            frame,
            on="A",
            time="A",
            window=None,
            where=F.col("left_A") < F.col("right_A"),  # type: ignore[arg-type]
        ),
        "on: .*left_A = right_A.* is a Column; name it by its text": lambda: frame.stream_join(
            frame,
            on=F.expr("left_A = right_A"),  # type: ignore[arg-type]
            time="A",
            window=None,
        ),
        "aggregate: .* is a Column; name it by its text": lambda: frame.aggregate(
            F.col("A"),  # type: ignore[arg-type]
            n="count",
        ),
        "memory: '1g' is no whole number": lambda: frame.stream_join(
            frame,
            on="A",
            time="A",
            window=None,
            memory="1g",  # type: ignore[arg-type]
        ),
        "relation: it is a dict": lambda: frame.lookup_join(declared, on="b"),  # type: ignore[arg-type]
        "columns r_v, r_v have one name; .* prefix": lambda: frame.lookup_join(relation, on="b").lookup_join(
            relation, on="b"
        ),
        "aggregate: n: write `count`, or {f: column} where": lambda: frame.aggregate("A", n={"summ": "A"}),
        "aggregate: m: write `count`, or {f: column} where": lambda: frame.aggregate(
            "A",
            m=F.count("b"),  # type: ignore[arg-type]
        ),
        "aggregate: it has no measure; name one, such as": lambda: frame.aggregate("A"),
    }
    for complaint, step in refused.items():
        with pytest.raises(ConfigError, match=complaint):
            step()
    assert frame.where("a > 0").df.columns == ["A", "b", "over"]
    before = PunctuatedFrame(source.withColumn("c", shout("b")), "over")  # the user's own step
    assert before.where("c = 'K'").select("c").columns == ["c"]
    renamed = frame.where("a > 0").select(F.col("a").alias("x"), "b").where(F.col("b") == "k")
    assert (renamed.columns, renamed.punctuations) == (["x", "b"], "over")
    assert _operators(frame.where("a > 0").df) == ["Filter", "Relation"]
    assert _operators(renamed.df)[-3:] == ["ArrowEvalPython", "Filter", "Relation"]
    assert _operators(renamed.rows) == ["Filter", "Relation"]


def test_nothing_is_computed_of_control_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever a source has put into their other columns."""
    rows = [{"a": 6, "b": 2}, {"a": 1, "b": 0, "over": '{"a": {"equals": 7}}'}]
    (tmp_path / "rows.json").write_text("\n".join(map(json.dumps, rows)))
    source = spark.read.schema("a bigint, b bigint, over string").json(str(tmp_path))

    frame = PunctuatedFrame(source, "over").where("a / b > 0").with_column("c", F.expr("a / b"))
    found = frame.select(F.col("a").alias("e"), "c", (F.col("a") % F.col("b")).alias("d"))

    told = sorted(map(tuple, found.df.collect()), key=repr)
    assert told == [(1, None, None, '{"e": {"equals": 7}}'), (6, 3.0, 0, None)]
    assert [tuple(row) for row in found.rows.collect()] == [(6, 3.0, 0)]


def test_columns_are_dropped_and_renamed(spark: SparkSession, tmp_path: Path) -> None:
    """A punctuation on a lost column is lost, and one on a renamed column has the new name."""
    texts = ['{"b.c": {"equals": 2}}', '{"a": {"equals": 1}}', '{"d": {"equals": 3}}']
    rows: list[dict[str, Any]] = [{"a": 1, "b.c": 2, "d": 3}, *({"over": text} for text in texts)]
    (tmp_path / "rows.json").write_text("\n".join(map(json.dumps, rows)))
    source = spark.read.schema("a bigint, `b.c` bigint, d bigint, over string").json(str(tmp_path))

    frame = PunctuatedFrame(source, "over").drop("a").with_columns_renamed({"b.c": "e.f"})

    assert frame.columns == ["e.f", "d"]
    found = {tuple(row) for row in frame.df.collect() if row["over"] is None or "e.f" in row["over"]}
    assert found == {(2, 3, None), (None, None, '{"e.f": {"equals": 2}}')}
    assert '{"a": {"equals": 1}}' not in {row["over"] for row in frame.df.collect()}
    for step in (lambda: frame.drop("a", "over"), lambda: frame.with_columns_renamed({"a": "over"})):
        with pytest.raises(ConfigError, match=r"the frame has no column a.*; it has e\.f, d"):
            step()  # type: ignore[no-untyped-call]
    with pytest.raises(ConfigError, match="columns d, d have one name"):
        frame.with_columns_renamed({"e.f": "d"})


def test_a_select_asks_spark_once_for_each_column(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asked for all columns anew for each column, so 60 columns took 27,000 calls of Java."""
    calls: list[str] = []
    send = GatewayClient.send_command

    def counted(client: GatewayClient, command: str, *args: Any, **kwargs: Any) -> Any:
        calls.append(command)
        return send(client, command, *args, **kwargs)

    def needed(width: int) -> int:
        names = [f"c{number}" for number in range(width)]
        source = spark.read.schema(", ".join(f"{name} bigint" for name in [*names, "over"])).json(
            str(tmp_path)
        )
        frame = PunctuatedFrame(source.withColumn("over", F.lit(None).cast("string")), "over")
        columns = [F.col(name).alias(name.upper()) if name != "c0" else F.col(name) + 1 for name in names]
        calls.clear()
        assert len(frame.select(*columns).columns) == width
        return len(calls)

    monkeypatch.setattr(GatewayClient, "send_command", counted)
    assert needed(60) < 4 * needed(20)


def test_names_may_have_dots(spark: SparkSession, tmp_path: Path) -> None:
    """In every step; PySpark takes a dot for a member of a struct."""
    database = Database(f"sqlite:///{tmp_path / 'relation.db'}")
    database.create("r", "k BIGINT PRIMARY KEY, v BIGINT", [(1, 7)])
    declared = {"url": database.url, "table": "r", "key": "k", "columns": {"k": "long", "v": "long"}}
    rows = [{"a.b": 1, "at": "2026-01-01T00:00:00Z"}, {"my.over": '{"a.b": {"equals": 1}}'}]
    (tmp_path / "in").mkdir()
    (tmp_path / "in/rows.json").write_text("\n".join(map(json.dumps, rows)))
    source = spark.readStream.schema("`my.over` string, `a.b` bigint, at timestamp").json(
        str(tmp_path / "in")
    )
    frame = PunctuatedFrame(source, "my.over").select(F.col("`a.b`").alias("k.x"), "at")

    looked_up = frame.lookup_join(Relation.model_validate(declared), on="k.x", prefix="r.s")
    joined = looked_up.stream_join(frame, on="k.x", time="at", window=None)
    groups = joined.aggregate("left_k.x", total={"sum": "left_r.s_v"})
    query = groups.write_delta(
        tmp_path / "t", tmp_path / "c", punctuations=tmp_path / "over", available_now=True
    )
    query.awaitTermination()

    [[row]] = rows_by_batch(tmp_path / "t").values()
    assert (row["left_k.x"], row["total"]) == (1, 7)
    [[over]] = rows_by_batch(tmp_path / "over").values()
    assert json.loads(over["punctuation"]) == {"left_k.x": {"equals": 1}}


def _operators(frame: DataFrame) -> list[str]:
    """Return the names of Spark's operators of a frame, from its end to its source, without projections."""
    plan: Any = frame
    lines = plan._jdf.queryExecution().optimizedPlan().toString().splitlines()
    names = [line.lstrip(" +-:").split(" ")[0] for line in lines]
    return [name for name in names if name != "Project"]
