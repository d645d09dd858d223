"""Consumers that last: batches of what a table's commits bring, from positions that are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._exports import exports

if TYPE_CHECKING:
    from adelta.consumers.batch import Batch as Batch
    from adelta.consumers.batch import Lag as Lag
    from adelta.consumers.batch import SchemaChange as SchemaChange
    from adelta.consumers.change_consumer import ChangeConsumer as ChangeConsumer
    from adelta.consumers.consumer import Consumer as Consumer
    from adelta.consumers.positions import FilePositions as FilePositions
    from adelta.consumers.positions import PositionStore as PositionStore
    from adelta.consumers.positions import StoredPosition as StoredPosition
    from adelta.consumers.postgresql import PostgresqlPositions as PostgresqlPositions

__all__ = exports(
    __name__,
    {
        "adelta.consumers.batch": ("Batch", "Lag", "SchemaChange"),
        "adelta.consumers.change_consumer": ("ChangeConsumer",),
        "adelta.consumers.consumer": ("Consumer",),
        "adelta.consumers.positions": ("FilePositions", "PositionStore", "StoredPosition"),
        "adelta.consumers.postgresql": ("PostgresqlPositions",),
    },
)
