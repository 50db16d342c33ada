"""Digests of answers: hashes in SQL on whole numbers, which Spark, DuckDB and Flink compute alike."""

from __future__ import annotations

# A code is below 2^31, so a product of two is a long, and so is the sum of what it leaves over a divisor
# below 2^32, for a billion answers.
CODES = 2_147_483_647
DIVISORS = (4_294_967_291, 4_294_967_279)
WEIGHTS = (1, 31, 97, 1009)


def code(*numbers: str) -> str:
    """Return the code of one side of an answer, from expressions that are whole numbers from 0 on, below
    2^56.
    """
    weighted = " + ".join(f"{weight} * {number}" for weight, number in zip(WEIGHTS, numbers, strict=False))
    # Flink's MOD has the type of the divisor, and an int times an int would overflow.
    return f"MOD({weighted}, CAST({CODES} AS BIGINT))"


def figures(left: str, right: str) -> list[str]:
    """Return expressions for the number of answers and two sums over them, from the codes of both sides.

    Codes are multiplied, so that the sums change when the same sides are paired in another way.
    """
    sums = (f"COALESCE(SUM(MOD({left} * {right}, {divisor})), 0)" for divisor in DIVISORS)
    return ["COUNT(*)", *sums]
