"""Small data files of this machine, decoded together where nothing sets them apart."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from adelta._dataclasses import dataclass
from adelta._memory import memory_limit_of
from adelta.errors import AdeltaError
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.scan_plan import assemble
from adelta.kernel.schema.calendar import legacy_calendar
from adelta.parquet.decode.alike_files import (
    AlikeFile,
    AlikeFiles,
    alike_file,
)
from adelta.parquet.fetch import ObjectBytes
from adelta.parquet.guard.decoding import DecodingGuard
from adelta.parquet.reader import ParquetFile
from adelta.read.units import Opened, Unit
from adelta.storage.pin import Pin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from adelta.kernel.scan_plan import ScanPlan
    from adelta.parquet.footer.layout import FileLayout, SelectedColumns
    from adelta.read.units import Piece
    from adelta.storage.object_store import SuffixRead
    from adelta.storage.roots import StoreRoots

__all__ = ["JoinedFiles"]

_Select: TypeAlias = "Callable[[ScanPlan, FileLayout], SelectedColumns]"
_Read: TypeAlias = "tuple[Piece, AlikeFile | None]"

_LONGEST: Final = 1024 * 1024  # bytes that are read of a file
_MOST_DECODED: Final = 16 * 1024 * 1024  # bytes of files that are decoded together,
_MOST_UNFOLDED: Final = 512 * 1024 * 1024  # and what these may come to by all that they say
_SHARE: Final = 8  # of the memory limit, one part in so many


@dataclass(frozen=True, slots=True)
class JoinedFiles:
    """Decodes whole files together that are alike, without deletion vectors, predicate or row ids.

    `select` says which of a file's columns the plan reads.
    """

    roots: StoreRoots
    plan: ScanPlan
    select: _Select

    def units(self, pieces: Sequence[Piece]) -> Iterator[tuple[list[Piece], Unit | None]]:
        """Pieces that follow each other, with their rows; None of those to be read one by one.

        CPU-heavy: call it in a worker thread.
        """
        for _, group in groupby(self._read(pieces), key=_kind):
            run = list(group)
            if len(run) > 1 and run[0][1] is not None:
                yield from self._parts([(p, file) for p, file in run if file is not None])
            else:
                yield [piece for piece, _ in run], None

    def _read(self, pieces: Sequence[Piece]) -> list[_Read]:
        """The pieces, with those files that a footer of a known shape describes."""
        found: list[_Read] = []
        located = [self.roots.locate(p.file.path, decode_path(p.file.path)) for p in pieces]
        for store, group in groupby(zip(pieces, located, strict=True), key=lambda one: one[1][0]):
            here = [(piece, path) for piece, (_, path) in group]
            whole: Iterator[SuffixRead] = iter(())
            if store.local is not None:
                whole = store.local.read_suffixes([path for _, path in here], _LONGEST)
            for piece, path in here:
                file = None
                try:
                    read = next(whole, None)
                    file = None if read is None else alike_file(path, read)
                except AdeltaError:
                    pass  # who reads it by itself says so
                found.append((piece, file))
        return found

    def _parts(
        self, run: Sequence[tuple[Piece, AlikeFile]]
    ) -> Iterator[tuple[list[Piece], Unit | None]]:
        """The files of one kind, as many together as memory holds."""
        most = min(_MOST_UNFOLDED, memory_limit_of(self.roots.store) // _SHARE)
        files = AlikeFiles([file for _, file in run])
        start = held = unfolded = 0  # of the next part
        for place, ((piece, file), size) in enumerate(zip(run, files.sizes, strict=True)):
            is_alone = size is None or size > most
            is_full = held + file.decoded_bytes > _MOST_DECODED or unfolded + (size or 0) > most
            if start < place and (is_alone or is_full):
                yield self._decoded(run, files, range(start, place))
                start, held, unfolded = place, 0, 0
            if is_alone:
                yield [piece], None
                start = place + 1
                continue
            held += file.decoded_bytes
            unfolded += size or 0
        if start < len(run):
            yield self._decoded(run, files, range(start, len(run)))

    def _decoded(
        self, run: Sequence[tuple[Piece, AlikeFile]], files: AlikeFiles, part: range
    ) -> tuple[list[Piece], Unit | None]:
        pieces = [run[place][0] for place in part]
        decoded = files.decode(part, lambda layout: self.select(self.plan, layout))
        if decoded is None or legacy_calendar(decoded[0].metadata.metadata) is not None:
            return pieces, None
        layout, columns, table = decoded
        store, file = self.roots.store, pieces[0].file
        try:
            rows = assemble(self.plan, table, file.partition_values, f"{store.uri}: {file.path}")
        except AdeltaError:
            return pieces, None
        parquet = ParquetFile(
            layout,
            ObjectBytes(store, layout, (), Pin()),
            DecodingGuard(layout, memory_limit_of(store), self.plan.verifies),
        )
        opened = Opened(pieces[0], parquet, columns, None, None, None, {})
        size = sum(run[place][1].decoded_bytes for place in part)
        groups = tuple(range(len(part)))
        return pieces, Unit(opened, groups, 0, layout.num_rows, layout.size, size, table=rows)


def _kind(read: _Read) -> Any:
    piece, file = read
    return None if file is None else (file.kind, piece.file.partition_values)
