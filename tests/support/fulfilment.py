"""A pipeline of many steps: orders with customers, countries, payments and shipments, grouped by country."""

from __future__ import annotations

from endmark.control.description import Description, SinkDescription, StepDescription, describe
from endmark.metrics import Samples, sample
from endmark.pipeline import Pipeline

FULFILMENT = Pipeline.model_validate(
    {
        "name": "fulfilment",
        "streams": {
            "orders": {
                "topic": "orders",
                "columns": {
                    "order_id": "long",
                    "customer_id": "long",
                    "total": "decimal(18,2)",
                    "ordered_at": "timestamp",
                },
                "event_time": {"column": "ordered_at"},
                "unique": "order_id",
            },
            "payments": {
                "topic": "payments",
                "columns": {"order_id": "long", "amount": "decimal(18,2)", "paid_at": "timestamp"},
                "event_time": {"column": "paid_at"},
                "punctuated_on": "order_id",
            },
            "shipments": {
                "topic": "shipments",
                "columns": {"order_id": "long", "parcel": "string", "sent_at": "timestamp"},
                "event_time": {"column": "sent_at"},
                "punctuated_on": "order_id",
            },
        },
        "relations": {
            "customers": {
                "url": "sqlite://",
                "table": "customers",
                "key": "customer_id",
                "columns": {"customer_id": "long", "name": "string", "country": "string"},
            },
            "countries": {
                "url": "sqlite://",
                "table": "countries",
                "key": "code",
                "columns": {"code": "string", "vat": "decimal(4,2)"},
            },
        },
        "steps": {
            "priced": {"from": "orders", "where": "total > 0", "derive": {"gross": "total * 1.19"}},
            "known": {"from": "priced", "lookup": {"relation": "customers", "key": "customer_id"}},
            "located": {
                "from": "known",
                "lookup": {"relation": "countries", "key": "customers.country", "time_per_batch": "2s"},
            },
            "fulfilled": {"join": ["located", "payments", "shipments"], "on": "order_id", "window": "14d"},
            "by_country": {
                "from": "fulfilled",
                "aggregate": {
                    "by": "customers.country",
                    "measures": {"orders": "count", "paid": {"sum": "payments.amount"}},
                },
            },
        },
        "tables": {"fulfilled": {}, "by_country": {"mode": "upsert"}},
        "publish": {"fulfilled": {"topic": "fulfilled"}},
    }
)


def samples_of_a_batch(n: int) -> Samples:
    """Return what a job of this pipeline might tell of batch `n`."""
    streams = {"orders": 1200 + n % 50, "payments": 1100 + n % 30, "shipments": 900 + n % 20}
    told: dict[str, float] = {sample("records_total", stream=name): rows for name, rows in streams.items()}
    told |= {sample("state_rows", operator="join", stream=name): 10 * rows for name, rows in streams.items()}
    told |= {
        sample("filtered_rows_total", stream="orders", step="priced"): 14,
        sample("lookup_pending_rows", relation="customers"): 0,
        sample("lookup_pending_rows", relation="countries"): 321,
        sample("join_results_total"): 870,
        sample("groups_closed_total", step="by_country"): 0,
        sample("running_groups_total", step="by_country"): 60,
        sample("propagated_punctuations_total", by="closed"): 850,
        sample("dead_letters_total", reason="not_json"): n % 3,
        sample("violations_total", reason="late"): n % 5,
        sample("batch_seconds", phase="total"): 0.6,
    }
    return told


def wide_description() -> Description:
    """Describe a pipeline of five streams and eight steps, some of which no pipeline file has yet."""
    told = describe(FULFILMENT)
    topics = {name: f"shop.{name}" for name in ("orders", "payments", "shipments", "returns", "invoices")}
    steps = [
        *told.steps[:3],
        StepDescription(name="checked", kind="lookup", inputs=["payments"], relation="banks"),
        StepDescription(name="carried", kind="lookup", inputs=["returns"], relation="carriers"),
        StepDescription(
            name="fulfilled",
            kind="join",
            inputs=["located", "checked", "shipments", "carried", "invoices"],
            relation=None,
        ),
        told.steps[-1],
        StepDescription(name="by_continent", kind="aggregate", inputs=["by_country"], relation=None),
    ]
    tables = [*told.tables, SinkDescription(name="by_continent", rows="groups", step="by_continent")]
    return told.model_copy(update={"topics": topics, "steps": steps, "tables": tables})
