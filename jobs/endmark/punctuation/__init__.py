"""Punctuations: promises of a stream about the rows that are still to come.

Null and NaN have no order and equal nothing, so only `Anything` matches them. Numbers compare by value: -0.0
equals 0.0, and 1 equals 1.0. A boolean is no number. Patterns hold finite numbers; an infinite value of a row
is below or above all of them.
"""
