"""Around a pipeline file: lines and hints in errors, fields set from outside, secrets, the picture."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from endmark.errors import ConfigError
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
        ("  left: items", "  lefft: items", "join.lefft: unknown field, did you mean left?"),
        ("{stream: bids,", "{straem: bids,", "lookup.straem: unknown field, did you mean stream?"),
        ("  by: item_id", "  by: item_id\n  zzz: 1", "aggregate.zzz: unknown field"),
        ("aggregate:", "agregate:", "agregate: unknown field, did you mean aggregate?"),
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
        ("left: 60s", "left: soon", "join.window.left: 'soon' is not a duration"),
        ("  left: items", "  left: itms", "join.left: 'itms' is not one of streams"),
        ("{max: bids.price}", "{max: bids.prize}", "aggregate.measures.highest_bid: no column 'prize'"),
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
    file.write_text(AUCTION.read_text().replace("  right: bids\n", ""))

    with pytest.raises(ConfigError, match=rf"line {line_of('join:', file)}: join\.right: Field required"):
        load(file, ENVIRONMENT)


def test_a_lookup_of_several_is_named_by_its_place(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(ORDERS.read_text().replace("miss: nulls}", "miss: nils}"))

    with pytest.raises(ConfigError, match=rf"line {line_of('nils', file)}: lookup\.1\.miss: Input should be"):
        load(file, ENVIRONMENT)


def test_fields_are_set_from_outside() -> None:
    """Values are as in the file, later ones win, and what is not there yet is made."""
    assignments = ["join.window.left=10s", "join.window.left=20s", "publish.topic=out", "join.purge_every=3"]
    pipeline = load(AUCTION, ENVIRONMENT, [*assignments, "streams.bids.punctuated_on=[item_id, seller_id]"])
    orders = load(ORDERS, ENVIRONMENT, ["lookup.1.page_rows=7"])

    assert pipeline.join.window.left is not None
    assert pipeline.join.window.left.total_seconds() == 20
    assert pipeline.publish is not None
    assert (pipeline.publish.topic, pipeline.join.purge_every) == ("out", 3)
    assert pipeline.streams["bids"].punctuated_on == ("item_id", "seller_id")
    assert [lookup.page_rows for lookup in orders.lookups] == [
        load(ORDERS, ENVIRONMENT).lookups[0].page_rows,
        7,
    ]


@pytest.mark.parametrize(
    ("assignment", "says"),
    [
        ("join.type", "--set join.type: write FIELD=VALUE, such as join.window.left=10s"),
        ("join..type=left", "write FIELD=VALUE"),
        ("name.first=a", "--set name.first=a: name is 'orders', which has no fields"),
        ("lookup.2=a", "there is a list of 2; name one by 0 to 1"),
        ("lookup.first.key=a", "lookup.first is None, which has no fields"),
        ("join.type={", "the value is no YAML"),
        ("join.tipe=left", "join.tipe: unknown field, did you mean type?"),
    ],
)
def test_what_cannot_be_set_is_named(assignment: str, says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        load(ORDERS, ENVIRONMENT, [assignment])


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


def test_the_picture_shows_what_flows() -> None:
    """Streams pass their lookups in turn to the join; every table that is written is there."""
    lines = drawn(load(ORDERS, ENVIRONMENT, ["publish.topic=out"])).splitlines()

    assert lines[0] == "flowchart LR"
    assert '  topic_orders -- "orders" --> lookup_customers' in lines
    assert "  lookup_customers --> lookup_products" in lines
    assert "  lookup_products --> join" in lines
    assert '  topic_payments -- "payments" --> join' in lines
    assert {line.split()[-1] for line in lines if line.startswith(("  join -->", "  group -->"))} == {
        *("group", "published", "table_results", "table_groups", "table_running"),
        *("table_violations", "table_punctuations", "table_dead_letters"),
    }
    assert "group" not in drawn(load(ORDERS, ENVIRONMENT, ["aggregate=null"]))


def test_commands_take_assignments() -> None:
    """`validate` draws, and says what a field that is set would do; the others read files the same way."""
    picture = endmark("validate", str(ORDERS), "--set=join.type=inner", "--mermaid", **ENVIRONMENT)
    assert (picture.returncode, "inner join" in picture.stdout) == (0, True)
    refused = endmark("validate", "--set=join.window.left=null", "--set=join.preset=shj", **ENVIRONMENT)
    assert (refused.returncode, "preset shj" in refused.stderr) == (2, True)
    for command in ("run", "plan", "verify"):
        assert "--set" in endmark(command, "--help", COLUMNS="200").stdout
