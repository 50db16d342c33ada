"""Records that are no good, and whose text is hard to store: half surrogate pairs, NUL, and far too much."""

from __future__ import annotations

LONG = b"x" * 100_000
JSON = [
    rb'{"item_id": "\ud800"}',
    rb'{"\ud800": 1}',
    rb'{"\ud800": 1, "\ud800": 2}',
    rb'{"item_id": "\u0000"}',
    rb'{"item_id": "\ud83d\ude00"}',
    rb'{"$punctuation": {"\ud800": {"equals": 1}}}',
    rb'{"$punctuation": {"item_id": {"\ud800": 1}}}',
    rb'{"$punctuation": {"item_id": {"equals": "\ud800"}}}',
    rb'{"$punctuation": {"item_id": {"between": {"\ud800": 1}}}}',
    rb'{"$punctuation": {"item_id": {"equals": 1}}, "\ud800": 1}',
    b'{"%s": 1}' % LONG,
    b'{"item_id": "%s"}' % LONG,
    b'{"%s": 1, "%s": 2}' % (LONG, LONG),
    b'{"$punctuation": {"item_id": {"equals": "%s"}}}' % LONG,
    b'{"$punctuation": {"%s": {"equals": 1}}}' % LONG,
]
DEBEZIUM = [
    rb'{"op": "\ud800"}',
    rb'{"op": "c", "after": {"\ud800": 1}}',
    b'{"op": "c", "after": {"item_id": "%s"}}' % LONG,
    b'{"op": "c", "after": {"%s": 1, "%s": 2}}' % (LONG, LONG),
    b'{"op": "%s"}' % LONG,
]
XML = [
    b"<r><item_id>\xed\xa0\x80</item_id></r>",
    rb'<punct:record><item_id>"\ud800"</item_id></punct:record>',
    b"<r><item_id>%s</item_id></r>" % LONG[:50_000],
    b"<r><%s/></r>" % LONG[:50_000],
    b"<%s/>" % b" ".join([b"r", *(b'a%d=""' % number for number in range(5_000))]),
    b"<!DOCTYPE %s><r/>" % LONG[:50_000],
]
CONTROL = [
    rb'{"set": {"steps.known.lookup.strategy": "scan"}, "by": "\ud800"}',
    rb'{"\ud800": 1}',
    rb'{"\ud800": 1, "\ud800": 2}',
    rb'{"set": {"\ud800": 1}, "by": "Ann"}',
    rb'{"set": {"steps.known.lookup.strategy": "\ud800"}, "by": "Ann"}',
    rb'{"set": {"steps.matched.purge_every": "\ud800"}, "by": "Ann"}',
    b'{"set": {"%s": 1}, "by": "Ann"}' % LONG,
    b'{"set": {"steps.known.lookup.strategy": "%s"}, "by": "Ann"}' % LONG,
    b'{"set": {"steps.known.lookup.strategy": %s%s}, "by": "Ann"}' % (b"[" * 900, b"]" * 900),
    b'{"set": {"steps.matched.purge_every": 1e400}, "by": "Ann"}',
    b'{"set": {"steps.matched.purge_every": %s}, "by": "Ann"}' % (b"-" + b"9" * 4_000),
    b'{"set": {"batch.every": %s}, "by": "Ann"}' % (b"9" * 400),
    b'{"set": {"steps.known.lookup.time_per_batch": -%s}, "by": "autotune"}' % (b"9" * 4_000),
    b'{"set": {"steps.known.lookup.page_rows": null}, "by": "autotune"}',
    b'{"set": {"steps.known.lookup.page_rows": "many"}, "by": "autotune"}',
]
