"""The pipeline's queries in Spark SQL; they run over the lake's tables and the raw files alike."""

from __future__ import annotations

__all__ = ["bronze_lineitem", "bronze_orders", "gold", "silver"]


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
