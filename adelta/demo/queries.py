"""The pipeline's queries in Spark SQL; they run over the lake's tables and the raw files alike."""

from __future__ import annotations

__all__ = [
    "AFTERWARDS",
    "bronze_lineitem",
    "bronze_orders",
    "corrected",
    "corrections",
    "gold",
    "silver",
]

AFTERWARDS = "_change_type <> 'update_preimage'"
"""Of the change data: rows that came, rows as they are now, and rows that went."""


def bronze_orders(raw: str) -> str:
    """Orders as they came, with the year that partitions them."""
    return f"SELECT *, year(o_orderdate) AS o_orderyear FROM {raw}"


def bronze_lineitem(raw: str) -> str:
    """Order lines as they came, with the year that partitions them."""
    return f"SELECT *, year(l_shipdate) AS l_shipyear FROM {raw}"


def silver(orders: str, lineitem: str) -> str:
    """Every order line beside its order, with what it earned and whether it came late."""
    return f"""
        SELECT l_orderkey AS order_key,
               l_linenumber AS line_number,
               o_custkey AS customer_key,
               o_orderdate AS ordered_on,
               l_shipdate AS shipped_on,
               year(o_orderdate) AS order_year,
               o_orderpriority AS priority,
               l_shipmode AS ship_mode,
               l_quantity AS quantity,
               CAST(l_extendedprice * (1 - l_discount) AS DECIMAL(18, 4)) AS revenue,
               CAST(l_extendedprice * (1 - l_discount) * (1 + l_tax) AS DECIMAL(20, 6)) AS charge,
               l_receiptdate > l_commitdate AS late
        FROM {lineitem} JOIN {orders} ON l_orderkey = o_orderkey
    """


def corrections(lineitem: str) -> str:
    """What a late report says of some order lines: refunded, or cancelled."""
    return f"""
        SELECT l_orderkey AS order_key, l_linenumber AS line_number, l_quantity < 5 AS cancelled
        FROM {lineitem}
        WHERE l_returnflag = 'R' AND l_linenumber = 7
    """


def corrected(silver: str, corrections: str) -> str:
    """What silver is once it has the corrections."""
    return f"""
        SELECT silver.* EXCEPT (revenue, charge),
               if(cancelled IS NULL, revenue, 0) AS revenue,
               if(cancelled IS NULL, charge, 0) AS charge
        FROM {silver} AS silver LEFT JOIN {corrections} AS c USING (order_key, line_number)
        WHERE NOT coalesce(cancelled, false)
    """


def gold(order_lines: str) -> str:
    """What each year, priority and way of shipping earned."""
    return f"""
        SELECT order_year,
               priority,
               ship_mode,
               count(DISTINCT order_key) AS orders,
               count(*) AS order_lines,
               CAST(sum(quantity) AS DECIMAL(24, 2)) AS quantity,
               CAST(sum(revenue) AS DECIMAL(28, 4)) AS revenue,
               CAST(sum(charge) AS DECIMAL(30, 6)) AS charge,
               count_if(late) AS late_lines
        FROM {order_lines}
        GROUP BY order_year, priority, ship_mode
    """
