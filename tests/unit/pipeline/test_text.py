"""Around a pipeline file: lines and hints in errors, fields set from outside, secrets, the picture."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from endmark.cli.app import app
from endmark.errors import ConfigError
from endmark.pipeline import Pipeline
from endmark.pipeline.file import load
from endmark.pipeline.picture import drawn
from endmark.pipelines import AUCTION
from support.commands import endmark

ENVIRONMENT = {"ENDMARK_RELATION_URL": "sqlite:///r.db"}
ORDERS = AUCTION.with_name("orders.yaml")


def line_of(text: str, file: Path) -> int:
    [number] = [number for number, line in enumerate(file.read_text().splitlines(), 1) if text in line]
    return number


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("    on: item_id", "    onn: item_id", "steps.matched.onn: unknown field, did you mean on?"),
        (
            "{relation: sellers,",
            "{relatoin: sellers,",
            "steps.known.lookup.relatoin: unknown field, did you mean relation?",
        ),
        ("    from: bids", "    form: bids", "steps.known.form: unknown field, did you mean from?"),
        (
            "      by: item_id",
            "      by: item_id\n      zzz: 1",
            "steps.by_item.aggregate.zzz: unknown field",
        ),
        ("tables:", "tabels:", "tabels: unknown field, did you mean tables?"),
        (
            "    key: seller_id",
            "    kee: seller_id",
            "relations.sellers.kee: unknown field, did you mean key?",
        ),
        ("column: bid_at", "column: bid_on", "streams.bids: event_time.column: no column 'bid_on'"),
        (
            "column: bid_at",
            "colum: bid_at",
            "streams.bids.event_time.colum: unknown field, did you mean column?",
        ),
        ("items: 60s", "items: soon", "steps.matched.window.items: 'soon' is not a duration"),
        ("    from: bids", "    from: bds", "steps.known.from: 'bds' is not one of streams or steps"),
        (
            "{max: bids.price}",
            "{max: bids.prize}",
            "steps.by_item.aggregate.measures.highest_bid: no column 'prize'",
        ),
    ],
)
def test_an_error_names_the_line(old: str, new: str, says: str, tmp_path: Path) -> None:
    """And what was probably meant, if anything like it exists there."""
    file = tmp_path / "p.yaml"
    file.write_text(AUCTION.read_text().replace(old, new))

    with pytest.raises(ConfigError) as refused:
        load(file, ENVIRONMENT)

    said = str(refused.value).removeprefix(f"{file}: ").split("; ")
    assert any(
        re.fullmatch(rf"line {line_of(new.splitlines()[-1], file)}: {re.escape(says)}.*", each)
        for each in said
    )
    assert ("did you mean" in str(refused.value)) == ("did you mean" in says)


def test_a_field_that_is_missing_is_told_by_what_lacks_it(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(AUCTION.read_text().replace("    on: item_id\n", ""))

    says = rf"line {line_of('  matched:', file)}: steps\.matched\.on: this field is missing"
    with pytest.raises(ConfigError, match=says):
        load(file, ENVIRONMENT)


def test_a_lookup_is_named_by_its_step(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(ORDERS.read_text().replace("miss: nulls}", "miss: nils}"))

    says = rf"line {line_of('nils', file)}: steps\.of_product\.lookup\.miss: Input should be"
    with pytest.raises(ConfigError, match=says):
        load(file, ENVIRONMENT)


def test_fields_are_set_from_outside() -> None:
    """Values are as in the file, later ones win, and what is not there yet is made."""
    assignments = [
        "steps.matched.window.items=10s",
        "steps.matched.window.items=20s",
        "publish.matched.topic=out",
        "steps.matched.purge_every=3",
    ]
    pipeline = load(AUCTION, ENVIRONMENT, [*assignments, "streams.bids.punctuated_on=[item_id, seller_id]"])
    orders = load(ORDERS, ENVIRONMENT, ["steps.of_product.lookup.page_rows=7"])

    assert pipeline.join is not None
    assert pipeline.window_of("items") == timedelta(seconds=20)
    assert (pipeline.outputs.topics, pipeline.join.purge_every) == ({"results": "out"}, 3)
    assert pipeline.streams["bids"].punctuated_on == ("item_id", "seller_id")
    assert [lookup.page_rows for lookup in orders.lookups] == [
        load(ORDERS, ENVIRONMENT).lookups[0].page_rows,
        7,
    ]


@pytest.mark.parametrize(
    ("assignment", "says"),
    [
        (
            "steps.matched.type",
            "--set steps.matched.type: write FIELD=VALUE, such as steps.matched.window=10s",
        ),
        ("steps..type=left", "write FIELD=VALUE"),
        ("name.first=a", "--set name.first=a: name is 'orders', which has no fields"),
        ("steps.matched.join.2=a", "there is a list of 2; name one by 0 to 1"),
        ("steps.matched.join.first.a.b.c=d", "c=d: steps.matched.join.first is None, which has no fields"),
        ("steps.matched.type={", "the value is no YAML"),
        ("steps.matched.tipe=left", "steps.matched.tipe: unknown field, did you mean type?"),
    ],
)
def test_what_cannot_be_set_is_named(assignment: str, says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        load(ORDERS, ENVIRONMENT, [assignment])


def test_a_topic_of_two_streams_is_named() -> None:
    """Any two of three streams may share it."""
    assignment = "streams.shipments.topic=shop-payments"
    with pytest.raises(ConfigError, match="streams: topic 'shop-payments' is named twice"):
        load(AUCTION.with_name("fulfilment.yaml"), ENVIRONMENT, [assignment])


def test_a_secret_comes_from_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "url"
    secret.write_text("sqlite:///secret.db\n")

    pipeline = load(AUCTION, {"ENDMARK_RELATION_URL_FILE": str(secret)})

    assert pipeline.relations["sellers"].url == "sqlite:///secret.db"
    assert (
        load(AUCTION, ENVIRONMENT | {"ENDMARK_RELATION_URL_FILE": "no"}).relations["sellers"].url
        == (ENVIRONMENT["ENDMARK_RELATION_URL"])
    )
    with pytest.raises(ConfigError, match=r"ENDMARK_RELATION_URL_FILE: .*none cannot be read"):
        load(AUCTION, {"ENDMARK_RELATION_URL_FILE": str(tmp_path / "none")})


BOMB = "".join(f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 9)}]\n" for at in range(1, 9))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"a0: &a0 x\n{BOMB}", "line 2: aliases are not read; write it out"),
        ("name: &me [*me]", "line 1: aliases are not read"),
        ("name: x\njoin: " + "[" * 3_000, "line 2: it is more than 50 levels deep"),
        ("name: x\njoin: " + "{a: " * 3_000, "line 2: it is more than 50 levels deep"),
        ("\n".join(" " * at + "a:" for at in range(3_000)), "has 262,144 bytes at most"),
        ("\n".join(" " * at + "a:" for at in range(300)), "line 50: it is more than 50 levels deep"),
        ("name: x\nname: y", "line 2: 'name' stands in line 1, too; leave one out"),
        ("name: x\njoin: {on: a,\n on: b}", "line 3: 'on' stands in line 2, too"),
        ("name: !!python/name:os.system x", "line 1: tags are not read"),
        ('name: !!int "x"', "line 1: tags are not read"),
        ("1: x", "line 1: a name must be a text; quote it"),
        ("? [a]\n: x", "line 1: a name must be a text"),
        ('name: "\\ud800"', "line 1: half of a character stands alone"),
        ('name: "\\UFFFFFFFF"', "not a YAML document: "),
        ("name: " + "9" * 5_000, "not a YAML document: "),
        ("name: \x00", "not a YAML document: "),
        ("name: x\n---\nname: y", "not a YAML document: line 2"),
        (
            "columns: {note: string?}",
            "line 1: expected ',' or '}', but got '?'; put a type that ends with ? in",
        ),
        (
            "name: x\nderive: {minute: date_trunc('minute', paid_at)}",
            "line 2: 'paid_at)' has no value; put a text with a comma in quotes",
        ),
        ("# " + "x" * 300_000, "has 262,144 bytes at most"),
        ("", "a pipeline file is a mapping"),
    ],
    ids=lambda value: value[:20],
)
def test_a_file_that_is_no_pipeline_is_told(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(text)

    with pytest.raises(ConfigError, match=re.escape(says)) as refused:
        load(file, ENVIRONMENT)
    assert len(str(refused.value)) < 1_000


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("999999999999d", "'999999999999d' is not from 0 to 36500d"),
        ("true", "True is not a duration"),
        ("010", "'010' is not a duration"),
        ("1:30", "'1:30' is not a duration"),
        ("\u0661\u0660s", "is not a duration"),
        ("0.01ms", "'0.01ms' is no whole number of milliseconds"),
        (".inf", "inf is not a duration"),
        ("-1", "-1 is not from 0 to 36500d"),
    ],
)
def test_a_duration_has_bounds(value: str, says: str, tmp_path: Path) -> None:
    """In the file and set from outside alike."""
    file = tmp_path / "p.yaml"
    file.write_text(AUCTION.read_text().replace("items: 60s", f"items: {value}"))
    line = line_of("items: " + value, file)

    with pytest.raises(
        ConfigError, match=rf"line {line}: steps\.matched\.window\.items: .*{re.escape(says)}"
    ):
        load(file, ENVIRONMENT)
    with pytest.raises(ConfigError, match=re.escape(says)):
        load(AUCTION, ENVIRONMENT, [f"steps.matched.window.items={value}"])


def test_a_variable_that_is_not_set_is_told_with_its_line() -> None:
    line = line_of("${ENDMARK_RELATION_URL}", AUCTION)

    with pytest.raises(ConfigError, match=rf"line {line}: relations\.sellers\.url: environment variable"):
        load(AUCTION, {})


def test_what_is_set_is_bounded_like_the_file() -> None:
    for assignment in (
        "join=" + "[" * 3_000,
        "join=*a",
        "join={on: a, on: b}",
        ".".join(["a"] * 3_000) + "=1",
    ):
        with pytest.raises(ConfigError, match=r"--set "):
            load(AUCTION, ENVIRONMENT, [assignment])


def test_errors_are_bounded(tmp_path: Path) -> None:
    """However many fields are unknown, and however long they are."""
    file = tmp_path / "p.yaml"
    file.write_text("\n".join(f"f{at}{'x' * 900}: 1" for at in range(100)))

    with pytest.raises(ConfigError, match="; and 82 more") as refused:
        load(file, ENVIRONMENT)
    assert len(str(refused.value)) < 15_000


PIECES = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        [
            "&a",
            "*a",
            "<<: *a",
            "!!set",
            "[",
            "{",
            "]",
            "}",
            ": ",
            "\n- ",
            "? ",
            "|",
            "%YAML 1.1",
            "---",
            "${X}",
        ]
    ),
    st.sampled_from(
        ["null", "true", "010", "1e400", "-.inf", "2026-13-45", "9" * 20, "0x1F", "1_0", '"\\udc00"']
    ),
)


@settings(max_examples=45, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_text_is_a_pipeline_or_an_error_that_is_told(data: st.DataObject, tmp_path: Path) -> None:
    """Made of an example by replacing pieces of it, or of nothing."""
    text = data.draw(st.sampled_from(["", ORDERS.read_text()]))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        gone = data.draw(st.integers(0, 20))
        text = text[:start] + data.draw(PIECES) + text[start + gone :]
    file = tmp_path / "p.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    assignments = [
        f"{data.draw(st.sampled_from(['steps.matched.where', 'batch', 'steps.0.x']))}={data.draw(PIECES)}"
    ]

    for options in ([], assignments):
        try:
            found = load(file, ENVIRONMENT, options)
        except ConfigError as error:
            str(error).encode()
        else:
            assert isinstance(found, Pipeline)


def test_conditions_are_checked_without_running(tmp_path: Path) -> None:
    refused = endmark("validate", "--set=steps.matched.where=bids_prize > 1", **ENVIRONMENT)

    assert refused.returncode == 2
    assert "steps.matched.where: no column 'bids_prize'; there are " in refused.stderr

    closing = '--set=streams.bids.closes={"on": "item_id", "when": "prize > 1"}'
    refused = endmark("validate", closing, **ENVIRONMENT)

    assert refused.returncode == 2
    assert "streams.bids.closes.when: no column 'prize'; there are " in refused.stderr


def test_the_picture_shows_what_flows() -> None:
    """Streams pass their lookups in turn to the join; every table that is written is there."""
    lines = drawn(load(ORDERS, ENVIRONMENT, ["publish.matched.topic=out"])).splitlines()

    assert lines[0] == "flowchart LR"
    assert "  stream_orders --> step_of_customer" in lines
    assert "  step_of_customer --> step_of_product" in lines
    assert "  step_of_product --> step_matched" in lines
    assert "  stream_payments --> step_matched" in lines
    shown = {line.split()[-1] for line in lines if line.startswith(("  step_matched -->", "  step_by_order"))}
    assert {each for each in shown if not each.endswith("]")} == {
        *("step_by_order", "published_matched", "table_results", "table_groups", "table_running"),
        *("table_violations", "table_punctuations", "table_dead_letters"),
    }


def test_commands_take_assignments() -> None:
    """`validate` draws, and says what a field that is set would do; the others read files the same way."""
    picture = endmark("validate", str(ORDERS), "--set=steps.matched.type=inner", "--mermaid", **ENVIRONMENT)
    assert (picture.returncode, "inner join" in picture.stdout) == (0, True)
    refused = endmark(
        "validate", "--set=steps.matched.window=null", "--set=steps.matched.preset=shj", **ENVIRONMENT
    )
    assert (refused.returncode, "preset shj" in refused.stderr) == (2, True)
    for command in ("run", "plan", "verify"):
        assert "--set" in CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).stdout
