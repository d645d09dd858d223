"""Tasks that write the rows of some files anew."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from adelta._concurrency import in_thread, to_the_end
from adelta._dataclasses import dataclass
from adelta._read_ahead import ReadAhead
from adelta.kernel.actions.file_actions import decode_path
from adelta.operations.copy_plan import copy_plan
from adelta.operations.rearrange.copying import copied_batches
from adelta.operations.rearrange.joining import joined_file
from adelta.operations.rearrange.sorting import RowSample, RunSorter
from adelta.write.data_file_writer import DataFileWriter
from adelta.write.discarding import discard_data_files
from adelta.write.spec import AS_THE_TABLE_SAYS, DataFileOptions, WriteSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.operations.rearrange.curves import Curve
    from adelta.operations.rearrange.sorting import Waiting
    from adelta.storage.roots import StoreRoots

__all__ = ["ClusterTask", "CompactTask", "Rewritten", "copy_spec"]

_MEMORY = 128 * 1024 * 1024
_UNLIMITED = 1 << 62
_ROW_GROUP_BYTES = 32 * 1024 * 1024
"""Of Arrow data, in files made of smaller ones: rows wait in memory, as often as tasks run, while
others are decoded. It is large enough that the next run joins these groups as they are."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The files that a task has written in the place of `num_bytes` of others."""

    adds: tuple[AddFile, ...]
    num_bytes: int

    @property
    def paths(self) -> Iterator[str]:
        """The objects that were written, by their paths in the store."""
        return (decode_path(add.path) for add in self.adds)


def copy_spec(
    configuration: TableConfiguration, options: DataFileOptions = AS_THE_TABLE_SAYS
) -> WriteSpec:
    """How rows of the table are written anew: one file for as many as the caller sees fit."""
    return replace(WriteSpec.of_copies(configuration, options), target_file_size=_UNLIMITED)


@dataclass(frozen=True, slots=True)
class CompactTask:
    """Files of one partition whose rows become one file, in their order."""

    configuration: TableConfiguration
    files: tuple[AddFile, ...]
    options: DataFileOptions = AS_THE_TABLE_SAYS

    async def run(self, roots: StoreRoots) -> Rewritten:
        """Carry it out, in bounded memory.

        Raises:
            MissingDataFileError: a file is not there.
            InvalidTableError: a file is damaged.
            StorageError: the store refused or failed.
        """
        spec = copy_spec(self.configuration, self.options)
        size = sum(file.size for file in self.files)
        if self.options == AS_THE_TABLE_SAYS:
            joined = await joined_file(roots, spec, self.configuration, self.files)
            if joined is not None:
                return Rewritten((joined,), size)
        spec = replace(spec, row_group_bytes=_ROW_GROUP_BYTES)
        rows = copied_batches(roots, self.configuration, self.files)
        async with DataFileWriter(roots.store, spec) as writer, aclosing(rows) as batches:
            async for batch in batches:
                await writer.write(batch)
                del batch  # so that the next one may have its memory
            adds = await writer.finish()
        return Rewritten(tuple(adds), size)


@dataclass(frozen=True, slots=True)
class ClusterTask:
    """Files of one partition whose rows become files of about `target` bytes, along a curve.

    `columns` are paths of logical names.
    """

    configuration: TableConfiguration
    files: tuple[AddFile, ...]
    columns: tuple[tuple[str, ...], ...]
    curve: Curve
    target: int
    options: DataFileOptions = AS_THE_TABLE_SAYS

    async def run(self, roots: StoreRoots) -> Rewritten:
        """Carry it out, in bounded memory: a sample of the columns first, then all rows.

        Raises:
            MissingDataFileError: a file is not there.
            InvalidTableError: a file is damaged.
            StorageError: the store refused or failed, or the local disk did.
        """
        size = sum(file.size for file in self.files)
        sample = await self._sampled(roots)
        ordering = await in_thread(sample.ordering)
        files = max(1, size // self.target)
        sorter = RunSorter(ordering, sample.num_rows, files, _MEMORY)
        done: list[AddFile] = []
        try:
            async with aclosing(copied_batches(roots, self.configuration, self.files)) as rows:
                async for batch in rows:
                    await in_thread(sorter.add, batch)
                    del batch
            for parts in sorter.parts():
                done += await self._written(roots, sorter, parts)
        except BaseException:
            await discard_data_files(roots.store, [decode_path(add.path) for add in done])
            raise
        finally:
            await to_the_end(in_thread(sorter.close))
        return Rewritten(tuple(done), size)

    async def _sampled(self, roots: StoreRoots) -> RowSample:
        names = tuple(dict.fromkeys(path[0] for path in self.columns))
        plan = copy_plan(self.configuration, columns=names)
        sample = RowSample(self.columns, self.curve)
        async with aclosing(copied_batches(roots, self.configuration, self.files, plan)) as rows:
            async for batch in rows:
                await in_thread(sample.add, batch)
        return sample

    async def _written(
        self, roots: StoreRoots, sorter: RunSorter, parts: list[list[Waiting]]
    ) -> list[AddFile]:
        """One file, or several where there is more than was foreseen; parts are sorted ahead."""
        spec = replace(
            copy_spec(self.configuration, self.options), target_file_size=2 * self.target
        )

        async def in_order(part: list[Waiting]) -> list[pa.RecordBatch]:
            return await in_thread(sorter.sorted_rows, part)

        ahead = ReadAhead(in_order, parts, limit=2)
        async with DataFileWriter(roots.store, spec) as writer, ahead as sorted_parts:
            async for batches in sorted_parts:
                while batches:
                    await writer.write(batches.pop(0))
            return await writer.finish()
