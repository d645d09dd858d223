"""Change data files: the rows that a commit changed, for its readers alone.

PROTOCOL.md, "Change Data Files". They are needed where a commit writes files anew, since nothing
else tells which of their rows are old. A commit that has one is read from these alone, so that they
have to tell of all its changes, inserts included.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa

from adelta._arrow_values import scalar_of
from adelta._clock import SYSTEM_CLOCK
from adelta.kernel.actions.file_actions import AddCDCFile
from adelta.kernel.table_features import CHANGE_TYPE
from adelta.parquet.write.abortable import Abortable
from adelta.write.data_file_writer import DataFileWriter

if TYPE_CHECKING:
    from typing import Self

    from adelta._clock import Clock
    from adelta.storage.object_store import ObjectStore
    from adelta.write.spec import WriteSpec

__all__ = ["DELETE", "INSERT", "POSTIMAGE", "PREIMAGE", "ChangeDataWriter", "ChangeKind"]

ChangeKind = Literal["insert", "update_preimage", "update_postimage", "delete"]
"""What became of a row."""

INSERT: Final = "insert"
PREIMAGE: Final = "update_preimage"
POSTIMAGE: Final = "update_postimage"
DELETE: Final = "delete"


class ChangeDataWriter(Abortable):
    """Writes changed rows into files below `_change_data`; used by one task at a time.

    Used as an async context manager: it deletes what it has written where the block fails.

    Example::

        async with ChangeDataWriter(store, spec) as changes:
            await changes.write(old_rows, "update_preimage")
            await changes.write(new_rows, "update_postimage")
            actions = await changes.finish()
    """

    def __init__(self, store: ObjectStore, spec: WriteSpec, *, clock: Clock = SYSTEM_CLOCK) -> None:
        own = replace(spec, content="changes", row_id_columns=None, optimize_write=False)
        self._writer = DataFileWriter(store, own, clock=clock)

    async def __aenter__(self) -> Self:
        """The writer itself, which knows by now what its files will be like.

        Raises: as `DataFileLayout.of` does.
        """
        await self._writer.__aenter__()
        return self

    async def write(self, rows: pa.RecordBatch, kind: ChangeKind) -> None:
        """Take in complete rows under the table's logical names; other columns are passed over.

        Raises:
            StorageError: the store refused or failed.
        """
        if rows.num_rows:
            kinds = pa.repeat(scalar_of(kind, pa.string()), rows.num_rows)
            await self._writer.write(rows.append_column(CHANGE_TYPE, kinds))

    async def finish(self) -> list[AddCDCFile]:
        """Close every file; the actions that tell readers of them.

        Raises:
            StorageError: the store refused or failed.
        """
        files = await self._writer.finish()
        return [AddCDCFile(file.path, file.partition_values, file.size) for file in files]

    async def abort(self) -> None:
        """Delete everything that was written."""
        await self._writer.abort()
