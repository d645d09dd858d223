"""ChangeConsumer: the consumer of a table's change data feed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.consumers.consumer import Consumer

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta
    from typing import Literal

    from adelta.consumers.positions import PositionStore
    from adelta.kernel.position import Position
    from adelta.table import Table, TableOrAddress

__all__ = ["ChangeConsumer"]


class ChangeConsumer(Consumer):
    """Batches of a table's changes, under a `name` by which `store` keeps how far they have come.

    It is the `Consumer` of ``changes``, and has all that one has: its batches have the rows that
    `changes` gives, with ``_change_type``, ``_commit_version`` and ``_commit_timestamp``. The table
    has to have ``delta.enableChangeDataFeed`` where commits delete or change rows.

    Raises:
        InvalidOptionError: an argument has a value that is not allowed.
    """

    def __init__(
        self,
        table: TableOrAddress,
        name: str,
        store: PositionStore | Table | str | os.PathLike[str],
        *,
        start: int | datetime | str | Position | None = None,
        columns: Sequence[str] | None = None,
        share: tuple[str, int, int] | None = None,
        max_rows: int = 1_000_000,
        max_files: int = 1_000,
        max_bytes: int = 256 * 1024 * 1024,
        max_delay: float = 0.0,
        on_lost: Literal["fail", "skip", "resnapshot"] = "fail",
        hold: timedelta | None = None,
        poll: float = 1.0,
        follow: bool = True,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            table,
            name,
            store,
            of="changes",
            start=start,
            columns=columns,
            share=share,
            max_rows=max_rows,
            max_files=max_files,
            max_bytes=max_bytes,
            max_delay=max_delay,
            on_lost=on_lost,
            hold=hold,
            poll=poll,
            follow=follow,
            storage_options=storage_options,
        )
