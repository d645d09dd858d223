"""Where the demo's tables are."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

import adelta
from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Lake"]


@dataclass(frozen=True, slots=True)
class Lake:
    """A folder or bucket of tables, and the storage options that open it."""

    uri: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold secrets

    bronze_orders = "bronze/orders"
    bronze_lineitem = "bronze/lineitem"
    silver = "silver/order_lines"
    gold = "gold/yearly_revenue"

    bronze = (bronze_orders, bronze_lineitem)

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables in the order in which the pipeline fills them."""
        return *self.bronze, self.silver, self.gold

    def address(self, table: str) -> str:
        """The URI of one of the tables."""
        return f"{self.uri.rstrip('/')}/{table}"

    def open(self, table: str) -> adelta.Table:
        """A handle on one of the tables, which need not exist yet."""
        return adelta.open_table(self.address(table), storage_options=dict(self.options))

    def __iter__(self) -> Iterator[str]:
        """The names of the tables."""
        return iter(self.tables)
