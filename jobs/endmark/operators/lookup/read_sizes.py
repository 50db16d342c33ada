"""The sizes of reads: how many pages and keys are read at once."""

from __future__ import annotations

# Keys in one list: enough that its round trips do not matter, few enough to be read while others are joined.
LIST_KEYS = 2_000
# Pages, and lists of keys, that are read while those before them are joined. Bounds memory by the size of a
# page, not of R, and lets one merge resolve many pages.
PAGES_AT_ONCE = 64
LISTS_AT_ONCE = 8
