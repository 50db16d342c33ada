"""The relation of HYBRIDJOIN's experiments (UoA-SE-2010-2, section 6): products, sorted by popularity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from endmark_feed.relation import CHUNK, KEY, fill_table, master_table

products_table = master_table(
    "sold_products",  # the example `orders` has a table called products
    sa.Column("product_id", KEY, primary_key=True, autoincrement=False),
    sa.Column("name", sa.String(40), nullable=False),
    sa.Column("price", sa.Double, nullable=False),
    # Makes a row about 120 bytes long, as in the paper.
    sa.Column("description", sa.String(80), nullable=False),
)


def fill_products(url: str, products: int) -> int:
    """Create and fill the table of products; return the number of rows written.

    A table that already has `products` rows is left as it is, and 0 is returned.

    Raises:
        ConfigError: the URL is no database URL, or the table exists with another number of rows.
        MissingPartError: the database does not answer, or its driver is not installed.
    """
    return fill_table(url, products_table, products, _chunks(products))


def _chunks(products: int) -> Iterator[list[dict[str, Any]]]:
    for first in range(1, products + 1, CHUNK):
        yield [
            {"product_id": key, "name": f"product {key}", "price": key * 0.5, "description": "x" * 70}
            for key in range(first, min(first + CHUNK, products + 1))
        ]
