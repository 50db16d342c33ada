"""Punctuations as XML: the report's notation there and back, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endmark.domain import Domain, PunctuationError
from endmark.punctuation import wire_xml
from endmark.punctuation.notation import from_notation
from endmark.punctuation.pattern import Anything, Between, Equals, Nothing, OneOf, Pattern
from endmark.punctuation.punctuation import Origin, Punctuation
from support.patterns import patterns
from support.xml_promises import encode, to_notation

DOMAINS = {domain.value: domain for domain in Domain}
NEWS = {"sno": Domain.LONG, "ipaddr": Domain.STRING}

FIGURE_3 = b"""
  <punct:record>
    <sno> 79 </sno>
    <ipaddr> * </ipaddr>
  </punct:record>
"""


def test_figure_3() -> None:
    """The punctuation that the report prints."""
    punctuation = wire_xml.decode(FIGURE_3, "AccessRecord", NEWS, Origin(0, 3))

    assert punctuation == Punctuation.of("AccessRecord", {"sno": Equals(79)}, Origin(0, 3))
    assert encode(punctuation, NEWS) == (b"<punct:record><sno>79</sno><ipaddr>*</ipaddr></punct:record>")


@settings(deadline=None)
@given(data=st.data())
def test_round_trip(data: st.DataObject) -> None:
    optional = {name: patterns(domain) for name, domain in DOMAINS.items()}
    written: dict[str, Pattern] = data.draw(st.fixed_dictionaries({}, optional=optional))
    punctuation = Punctuation.of("s", written)

    assert wire_xml.decode(encode(punctuation, DOMAINS), "s", DOMAINS) == punctuation


@settings(deadline=None)
@given(
    values=st.frozensets(
        st.text(st.sampled_from('a1 *∅{}[](),"\\<>&\r\n\t\x00\x85\ufffe😀') | st.characters(codec="utf-8")),
        max_size=3,
    )
)
def test_any_text(values: frozenset[str]) -> None:
    """The notation's own characters, XML's, and those XML cannot carry."""
    written: list[Pattern] = [OneOf(values), *map(Equals, values)]
    for pattern in written:
        punctuation = Punctuation.of("s", {"string": pattern})

        assert wire_xml.decode(encode(punctuation, DOMAINS), "s", DOMAINS) == punctuation


@pytest.mark.parametrize(
    ("pattern", "domain", "text"),
    [
        (Anything(), Domain.STRING, "*"),
        (Equals("*"), Domain.STRING, '"*"'),
        (Nothing(), Domain.LONG, "∅"),
        (Equals(""), Domain.STRING, '""'),
        (Equals("Smart Card"), Domain.STRING, "Smart Card"),
        (Equals("64.58.76.224"), Domain.STRING, "64.58.76.224"),
        (Equals('say "no"'), Domain.STRING, '"say \\"no\\""'),
        (OneOf(frozenset({1, 2, 3})), Domain.LONG, "{1, 2, 3}"),
        (OneOf(frozenset()), Domain.LONG, "{}"),
        (OneOf(frozenset({"a", "b,c"})), Domain.STRING, '{"b,c", a}'),
        (Between(1, 20), Domain.LONG, "[1, 20]"),
        (Between(1, 20, True, True), Domain.LONG, "(1, 20)"),
        (Between(None, 20), Domain.LONG, "(, 20]"),
        (Between(-1.5, None), Domain.DOUBLE, "[-1.5, )"),
        (Between(), Domain.DOUBLE, "(, )"),
        (Equals(False), Domain.BOOLEAN, "false"),
    ],
)
def test_notation(pattern: Pattern, domain: Domain, text: str) -> None:
    assert to_notation(pattern, domain) == text
    assert from_notation(text, domain) == pattern
    assert from_notation(f"\n {text} \t", domain) == pattern


@pytest.mark.parametrize(
    ("text", "domain", "error"),
    [
        ("", Domain.STRING, "is no pattern"),
        ("  ", Domain.STRING, "is no pattern"),
        ("**", Domain.LONG, "is no pattern"),
        ("{1,}", Domain.LONG, "is no pattern"),
        ("{,1}", Domain.LONG, "is no pattern"),
        ("{1 [ 2}", Domain.LONG, "is no pattern"),
        ("{1, 2", Domain.LONG, "is no pattern"),
        ("[1]", Domain.LONG, "is no pattern"),
        ("[1, 2, 3]", Domain.LONG, "is no pattern"),
        ('"a" "b"', Domain.STRING, "is no pattern"),
        ('"a', Domain.STRING, "is no pattern"),
        ("1 2", Domain.LONG, "1 2 is no long"),
        ("1.0", Domain.LONG, "is no long"),
        ("null", Domain.LONG, "None is NoneType"),
        ("NaN", Domain.DOUBLE, "finite numbers"),
        ('"1"', Domain.LONG, "'1' is no long"),
        ('"\\x"', Domain.STRING, "is no string"),
        ("[a, 2]", Domain.LONG, "a is no long"),
        ("2026-13-01", Domain.DATE, "is no date"),
    ],
)
def test_notation_refused(text: str, domain: Domain, error: str) -> None:
    with pytest.raises(PunctuationError, match=error):
        from_notation(text, domain)


@pytest.mark.parametrize(
    ("record", "error"),
    [
        ('<!DOCTYPE r [<!ENTITY a "79">]><punct:record><sno>&a;</sno></punct:record>', "no document type"),
        (
            '<!DOCTYPE r SYSTEM "file:///etc/passwd"><punct:record><sno>1</sno></punct:record>',
            "no document type",
        ),
        ("<punct:record><sno>&a;</sno></punct:record>", "not XML: undefined entity"),
        ("<punct:record><sno>1</sno>", "not XML"),
        ("<record><sno>1</sno></record>", "'record' stands where only punct:record may"),
        ("<punct:record><sno>1<ipaddr/></sno></punct:record>", "flat elements"),
        ("<punct:record><sno>1</sno><sno>2</sno></punct:record>", "stands twice"),
        ('<punct:record><sno unit="x">1</sno></punct:record>', "has attributes: unit"),
        ("<punct:record>1<sno>1</sno></punct:record>", "outside of any element"),
        ("<punct:record></punct:record>", "names no attribute"),
        ("<punct:record><colour>1</colour></punct:record>", "no attribute 'colour'; it has sno, ipaddr"),
        ("<punct:record><sno>x</sno></punct:record>", "attribute 'sno': x is no long"),
    ],
)
def test_refused(record: str, error: str) -> None:
    with pytest.raises(PunctuationError, match=error):
        wire_xml.decode(record.encode(), "AccessRecord", NEWS)


def test_namespace_may_be_declared() -> None:
    record = b'<?xml version="1.0"?><punct:record xmlns:punct="urn:p"><sno>1</sno><!-- end --></punct:record>'

    assert wire_xml.decode(record, "s", NEWS) == Punctuation.of("s", {"sno": Equals(1)})
