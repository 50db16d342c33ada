"""Punctuations: promises of a stream about the rows that are still to come.

Null and NaN are in no order and equal nothing, so only `Anything` matches them. Numbers compare by value
(-0.0 is 0.0, 1 is 1.0), but a boolean is no number. Patterns hold finite numbers; infinite rows are
below or above all of them.
"""
