"""Data files, opened for a plan: what of them is to be read, and the first rows of those nearby."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeAlias

from adelta._concurrency import in_thread, map_concurrent, together
from adelta.errors import AdeltaError, MissingDataFileError, ObjectNotFoundError
from adelta.kernel.actions.file_actions import AddFile, decode_path
from adelta.kernel.deletion_vector.mask import check_bounds
from adelta.kernel.scan_plan import ScanPlan, file_column_indices, row_id_columns
from adelta.kernel.schema.calendar import legacy_calendar
from adelta.log.deletion_vector_reader import read_deletion_vector
from adelta.parquet.footer.fetch_footer import DEFAULT_TAIL
from adelta.parquet.footer.layout import FileLayout, SelectedColumns
from adelta.parquet.reader import ParquetFile
from adelta.read.joined_files import JoinedFiles
from adelta.read.row_group_skipping import RowGroupSkipping
from adelta.read.unit_slices import UnitSlice, UnitSlices
from adelta.read.units import Opened, Part, Piece, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyroaring import BitMap64

    from adelta.kernel.data_skipping.prune import Skipping
    from adelta.read.index_skipping import IndexSkipping
    from adelta.storage.object_store import ObjectStore
    from adelta.storage.roots import StoreRoots

__all__ = ["Opener", "open_data_file"]

_SMALL = 16 * 1024 * 1024  # adjacent row groups are read at once up to this size, decoded
_HEAD = 24 * 1024 * 1024  # bytes of the first file, asked for before its footer is there
_NOT_WORTH_A_LOOK = 1024 * 1024  # bytes of a file's rows that decode sooner than skipping decides
_MOST_TOGETHER = 8  # small files nearby that one thread opens in one go,
_MOST_JOINED = 32  # and where they may be decoded as one: a batch of rows to write, about
_DECODED_AT_ONCE = 32 * 1024 * 1024  # bytes of the units that are decoded where they are opened,
_DECODED_OF_A_CACHE = 4 * 1024 * 1024  # and of those of a cache: files afar are opened far ahead

_Chosen: TypeAlias = tuple[SelectedColumns, SelectedColumns | None, dict[int, Part]]
"""The columns to read, those that decide, and row groups."""


async def open_data_file(roots: StoreRoots, file: AddFile, *, verify: bool = False) -> ParquetFile:
    """The opened Parquet object of a data file, whose pages to hold to their checksums or not.

    Raises:
        MissingDataFileError: it is not there.
        InvalidTableError: it is damaged.
    """
    store, path = roots.locate(file.path, decode_path(file.path))
    with _named_by_the_log(store, path):
        return await ParquetFile.open(store, path, size=file.size or None, verify=verify)


@contextmanager
def _named_by_the_log(store: ObjectStore, path: str) -> Iterator[None]:
    try:
        yield
    except ObjectNotFoundError as error:
        raise MissingDataFileError(
            f"{store.uri}/{path} is named by the log and not there; if it was vacuumed, read a "
            "later version, else restore the file or remove it from the log (fsck)"
        ) from error


class Opener:
    """Opens pieces: footer and deletion vector at once, then which row groups are worth reading.

    Small row groups of a file nearby are decoded by the thread that opens the file, where nothing
    is to be left out of them: another thread would have to be told, and to wait its turn.
    So are files of one small row group that came along with its footer, predicate or not: to look
    whether it may be skipped takes longer. Of a store afar the first bytes of the first file are
    asked for with its footer, where all columns are wanted: that spares the first rows an answer's
    way. Where it `joins`, rows of small files of this machine come together, as those of the first.
    """

    def __init__(
        self,
        roots: StoreRoots,
        plan: ScanPlan,
        skipping: Skipping | None = None,
        *,
        joins: bool = False,
    ) -> None:
        self._roots = roots
        self._plan = plan
        self._made = skipping
        self._found: dict[bool, tuple[pa.Schema, SelectedColumns]] = {}
        self._local = roots.store.local is not None
        self._nearby = roots.store.nearby is not None
        self._most_decoded = _DECODED_AT_ONCE if self._local else _DECODED_OF_A_CACHE
        self._decodes = plan.where is None and self._nearby
        all_afar = plan.where is None and plan.reads_all_columns and not self._local
        self._head = _HEAD if all_afar else 0
        joins = joins and self._local and plan.where is None and plan.row_ids is None
        self._joined = JoinedFiles(roots, plan, self._columns) if joins else None

    @property
    def most_together(self) -> int:
        """How many files are opened in one go at most."""
        return _MOST_TOGETHER if self._joined is None else _MOST_JOINED

    @cached_property
    def _skipping(self) -> RowGroupSkipping:
        return RowGroupSkipping(self._plan, self._made)

    @cached_property
    def _indexes(self) -> IndexSkipping:
        from adelta.read.index_skipping import IndexSkipping

        return IndexSkipping(self._plan, self._skipping)

    def opens_together(self, piece: Piece) -> int:
        """Bytes of a file that is opened in one go with others like it; 0 for one that is not."""
        file = piece.file
        alone = not self._nearby or file.deletion_vector is not None or piece.only is not None
        size = 0 if alone else file.size or 0
        return size if size <= _NOT_WORTH_A_LOOK else 0

    async def open_batch(self, pieces: Sequence[Piece]) -> list[tuple[Piece, list[Unit] | None]]:
        """The pieces with the row groups to read, or None: `open` those by themselves.

        One that cannot be read is such a piece too: who comes to it says so.
        """
        if len(pieces) == 1 and (self._local or not self.opens_together(pieces[0])):
            return [(pieces[0], await self.open(pieces[0]))]
        found = await in_thread(self._open_here, pieces)
        if self._local:
            return found
        absent = [piece for piece, units in found if units is None]
        opened = iter(await map_concurrent(self._opened_or_none, absent, limit=len(pieces)))
        return [(piece, next(opened) if units is None else units) for piece, units in found]

    async def _opened_or_none(self, piece: Piece) -> list[Unit] | None:
        with suppress(AdeltaError):
            return await self.open(piece, afar=True)
        return None

    def _open_here(self, pieces: Sequence[Piece]) -> list[tuple[Piece, list[Unit] | None]]:
        if self._joined is None:
            return self._each_here(pieces)
        return [
            each
            for run, unit in self._joined.units(pieces)
            for each in (self._each_here(run) if unit is None else [(run[0], [unit])])
        ]

    def _each_here(self, pieces: Sequence[Piece]) -> list[tuple[Piece, list[Unit] | None]]:
        found: list[tuple[Piece, list[Unit] | None]] = []
        held = 0
        for piece in pieces:
            units = None
            with suppress(AdeltaError):
                units = self._decoded_here(piece) if held < self._most_decoded else None
            held += sum(unit.decoded_bytes for unit in units or ())
            found.append((piece, units))
        return found

    def _decoded_here(self, piece: Piece) -> list[Unit] | None:
        file = piece.file
        look = partial(self._look, piece, whole=True, decodes=self._decodes)
        store, path = self._roots.locate(file.path, decode_path(file.path))
        verify = self._plan.verifies
        opened = ParquetFile.open_here(store, path, look, size=file.size or 0, verify=verify)
        return None if opened is None else opened[1][1]

    async def open(self, piece: Piece, *, afar: bool = False) -> list[Unit]:
        """The row groups to read of the piece, in units, once it is open.

        One that is `afar` was not found on a disk of this machine, a moment ago.
        """
        vector = piece.file.deletion_vector
        open_file = partial(self._open_and_choose, piece, afar=afar)
        if vector is None:
            (parquet, (chosen, units)), deleted = await open_file(), None
        else:
            opened, deleted = await together(open_file, partial(self._deleted, piece))
            parquet, (chosen, units) = opened
        if units is not None:
            return units
        if deleted is not None and vector is not None:
            source = f"{self._roots.store.uri}: {piece.file.path}"
            check_bounds(deleted, parquet.layout.num_rows, vector.cardinality, source)
        columns, deciding, groups = chosen
        parts = await self._indexes.parts(piece, parquet, columns, groups)
        legacy = legacy_calendar(parquet.layout.metadata.metadata)
        return list(_units(Opened(piece, parquet, columns, deciding, deleted, legacy, parts)))

    async def _open_and_choose(
        self, piece: Piece, *, afar: bool
    ) -> tuple[ParquetFile, tuple[_Chosen, list[Unit] | None]]:
        """The file with what is to be read of it, and its units where rows came at once."""
        file = piece.file
        whole = file.deletion_vector is None and piece.only is None
        decodes = whole and self._decodes
        is_small = whole and 0 < (file.size or 0) <= _NOT_WORTH_A_LOOK
        head, self._head = (self._head if piece.only is None else 0), 0

        store, path = self._roots.locate(file.path, decode_path(file.path))
        with _named_by_the_log(store, path):
            return await ParquetFile.open_and(
                store,
                path,
                partial(self._look, piece, whole=whole, decodes=decodes),
                size=file.size or None,
                tail=_NOT_WORTH_A_LOOK if is_small and self._local else DEFAULT_TAIL,
                head=head,
                decodes=decodes or is_small,
                verify=self._plan.verifies,
                afar=afar,
            )

    def _look(
        self, piece: Piece, parquet: ParquetFile, *, whole: bool, decodes: bool
    ) -> tuple[_Chosen, list[Unit] | None]:
        """What is to be read of a file, which may be `whole`, and its units where rows came."""
        columns = self._columns(self._plan, parquet.layout)
        if not (decodes or (whole and _is_small(parquet, columns))):
            return self._choose(piece, parquet, columns, skips=True), None
        chosen = self._choose(piece, parquet, columns, skips=False)
        _, deciding, groups = chosen
        legacy = legacy_calendar(parquet.layout.metadata.metadata)
        parts = {group: [part] for group, part in groups.items()}
        opened = Opened(piece, parquet, columns, deciding, None, legacy, parts)
        units = self._first_decoded(list(_units(opened)))
        if units and units[0].table is None and self._plan.where is not None:
            # What is wrong may be in rows that are skipped.
            return self._choose(piece, parquet, columns, skips=True), None
        return chosen, units

    def _first_decoded(self, units: list[Unit]) -> list[Unit]:
        """The units, the first one with its rows, if it is small and its bytes are at hand."""
        if not units or units[0].decoded_bytes > self._most_decoded:
            return units
        first, opened = units[0], units[0].opened
        try:
            columns, missing = opened.parquet.bytes.nearby(opened.columns, first.row_groups)
        except AdeltaError:
            return units
        if missing and not columns.in_file:
            return units
        decoding = UnitSlices(self._plan, first, columns, self._roots.store.uri)
        try:
            table = UnitSlice(decoding, 0, None).share(0)
        except AdeltaError:
            return units  # who comes to it says so, after the rows before it
        finally:
            decoding.close()
        return [replace(first, table=table), *units[1:]]

    def _choose(
        self, piece: Piece, parquet: ParquetFile, columns: SelectedColumns, *, skips: bool
    ) -> _Chosen:
        """The columns to read, those that decide, and the row groups worth it."""
        deciding = None
        kept: Sequence[int] = range(parquet.layout.num_row_groups)
        if skips and self._plan.where is not None:
            deciding = self._columns(self._plan.deciding, parquet.layout)
            if len(deciding.leaves) == len(columns.leaves):
                deciding = None
            kept = self._skipping.kept(piece.file, parquet)
            _ = self._indexes  # made here, in a worker thread: a predicate may be long
        parquet.layout.places(columns.leaves, kept)
        groups = {
            group: Part(
                parquet.layout.column_bytes(columns, group),
                parquet.layout.uncompressed_bytes(columns, group),
            )
            for group in kept
        }
        return columns, deciding, groups

    def _columns(self, plan: ScanPlan, layout: FileLayout) -> SelectedColumns:
        """The plan's columns in the file: those of the file before where it has the same schema."""
        schema = layout.schema
        known = self._found.get(plan is self._plan)
        if known is not None and schema.equals(known[0], check_metadata=True):
            return known[1]
        found = file_column_indices(plan, schema)
        names = [schema.field(index).name for _, index in found if index is not None]
        names += row_id_columns(plan, schema)
        selected = layout.select([(name,) for name in dict.fromkeys(names)])
        self._found[plan is self._plan] = schema, selected
        return selected

    async def _deleted(self, piece: Piece) -> BitMap64 | None:
        vector = piece.file.deletion_vector
        if vector is None or piece.only is not None:
            return None
        source = f"{self._roots.store.uri}: {piece.file.path}"
        return await read_deletion_vector(self._roots, vector, source)


def _is_small(parquet: ParquetFile, columns: SelectedColumns) -> bool:
    """Whether the file is one small row group, of which these columns may be at hand."""
    layout = parquet.layout
    if layout.num_row_groups != 1 or layout.uncompressed_bytes(columns, 0) > _NOT_WORTH_A_LOOK:
        return False
    if parquet.bytes.store.nearby is not None:
        return True
    _, missing = parquet.bytes.at_hand(columns, (0,))
    return not missing


def _units(opened: Opened) -> Iterator[Unit]:
    """The row groups to read, small ones together."""
    only, metadata = opened.piece.only, opened.parquet.layout.metadata
    waiting: Unit | None = None
    first_row = 0
    for group in range(opened.parquet.layout.num_row_groups):
        rows = metadata.row_group(group).num_rows
        units = [
            _unit(opened, group, part, first_row, rows) for part in opened.row_groups.get(group, ())
        ]
        if only is not None:
            units = [u for u in units if only.range_cardinality(u.first_row, u.first_row + u.rows)]
        for unit in units:
            joined = None if waiting is None else _joined(waiting, unit)
            if waiting is not None and joined is None:
                yield waiting
            waiting = joined or unit
        if not units and waiting is not None:
            yield waiting
            waiting = None
        first_row += rows
    if waiting is not None:
        yield waiting


def _unit(opened: Opened, group: int, part: Part, first_row: int, rows: int) -> Unit:
    if part.pages is not None:
        first_row, rows = first_row + part.pages.rows.start, len(part.pages.rows)
    return Unit(opened, (group,), first_row, rows, part.bytes, part.decoded_bytes, part.pages)


def _joined(unit: Unit, after: Unit) -> Unit | None:
    """Both as one, where they are small, and all of their row groups."""
    size = unit.decoded_bytes + after.decoded_bytes
    if unit.pages is not None or after.pages is not None or size > _SMALL:
        return None
    return replace(
        unit,
        row_groups=unit.row_groups + after.row_groups,
        rows=unit.rows + after.rows,
        bytes=unit.bytes + after.bytes,
        decoded_bytes=size,
    )
