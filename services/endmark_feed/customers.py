"""The master table `customers` of the shops, in the pipelines `orders` and `fulfilment`."""

from __future__ import annotations

import sqlalchemy as sa

from endmark_feed.options import random_stream
from endmark_feed.relation import COUNTRIES, FIRST_NAMES, KEY, LAST_NAMES, fill_table, master_table

CUSTOMERS = 5_000

customers_table = master_table(
    "customers",
    sa.Column("customer_id", KEY, primary_key=True, autoincrement=False),
    sa.Column("name", sa.String(100), nullable=False),
    sa.Column("country", sa.String(2), nullable=False),
)


def fill_customers(url: str, seed: int) -> int:
    """Create and fill the table of customers; return the number of rows written."""
    random = random_stream(seed, "customers")
    customers = [
        {
            "customer_id": number,
            "name": f"{random.choice(FIRST_NAMES)} {random.choice(LAST_NAMES)}",
            "country": str(random.choice(COUNTRIES)),
        }
        for number in range(1, CUSTOMERS + 1)
    ]
    return fill_table(url, customers_table, CUSTOMERS, [customers])
