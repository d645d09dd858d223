"""Reading one row group of a checkpoint: what is fetched of it stays, and is decoded in slices.

What has been fetched is kept as it came, small as it is, and decoded slice by slice, again where a
later step needs the same columns: only what a step keeps stays in memory.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import scalar_of
from adelta.parquet.column_slices import ColumnSlices

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from adelta.parquet.fetch import FetchedColumns
    from adelta.parquet.reader import ParquetFile

__all__ = ["PARTITION_VALUES_PARSED", "STATS_PARSED", "RowGroupReader", "type_of"]

arrow: Any = pa  # likewise of types that are known at run time only

P = ParamSpec("P")
R = TypeVar("R")
Values: TypeAlias = Any  # an array, or a chunked one, of a type that the stubs cannot follow

STATS_PARSED = ("add", "stats_parsed")
PARTITION_VALUES_PARSED = ("add", "partitionValues_parsed")
_PATH = ("add", "path")
_LOOKED_AT = 4 << 20  # bytes of a column that are decoded at once, and let go


class RowGroupReader:
    """The `add` structs of one row group. Masks are as long as the row group.

    Attributes:
        file: the file of the checkpoint.
        group: the row group's number.
        rows: how many rows there are.
    """

    def __init__(self, file: ParquetFile, group: int) -> None:
        self.file = file
        self.rows = file.layout.metadata.row_group(group).num_rows
        self.group = group
        self._fetched: FetchedColumns | None = None

    async def fetch(self, fields: Sequence[tuple[str, ...]]) -> FetchedColumns | None:
        """Fields of `add`, or fields of its structs, those that the file has; None for none."""
        leaves = self.present(fields)
        if not leaves:
            return None
        self._fetched = await self.file.fetch(leaves, row_groups=[self.group], having=self._fetched)
        return self._fetched

    def present(self, fields: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
        """The leaves of these fields that the file has."""
        leaves = [("add", *field) for field in fields]
        return [leaf for leaf in leaves if self.file.layout.has_column(leaf)]

    def complete(self, field: str) -> bool:
        """Whether the footer says that every file has a value of the field."""
        kind = type_of(self.file.layout.schema, ("add", field))
        if kind is None or pa.types.is_nested(kind):
            return False
        found = self.file.layout.statistics(self.group, ("add", field))
        paths = self.file.layout.statistics(self.group, _PATH)
        if found is None or paths is None or found.null_count is None:
            return False
        return found.null_count == paths.null_count

    def sliced(
        self,
        step: Callable[Concatenate[ColumnSlices, P], R],
        fetched: FetchedColumns,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Result of a step that decodes what was fetched."""
        with ColumnSlices(self.file, fetched) as slices:
            return step(slices, *args, **kwargs)

    def slices(
        self,
        slices: ColumnSlices,
        fields: Sequence[tuple[str, ...]],
        end: int,
        size: int | None = None,
    ) -> Generator[tuple[int, Values], None, None]:
        """`add` structs of these fields of the rows up to `end`, each with its first row."""
        start = 0
        with closing(slices.of(self.present(fields), size or _LOOKED_AT)) as found:
            for actions in found:
                yield start, actions
                start += len(actions)
                if start >= end:
                    return

    def end(self, mask: Values | None) -> int:
        """Behind the last row that `mask` names."""
        if mask is None:
            return self.rows
        last = pc.max(pc.indices_nonzero(mask)).as_py()
        return 0 if last is None else int(last) + 1

    def padded(self, masks: Sequence[Values]) -> Values:
        """The masks of the first rows as one for all rows."""
        missing = self.rows - sum(map(len, masks))
        return arrow.concat_arrays([*masks, arrow.repeat(scalar_of(False, pa.bool_()), missing)])

    def only_files(self) -> bool:
        """Whether the footer says that every row is of a live file."""
        paths = self.file.layout.statistics(self.group, _PATH)
        return paths is not None and paths.null_count == 0


def type_of(schema: pa.Schema, path: tuple[str, ...]) -> pa.DataType | None:
    """The type of a field that is reached through structs; None where there is no such field."""
    here: Any = arrow.struct(list(schema))
    for step in path:
        at = here.get_field_index(step) if pa.types.is_struct(here) else -1
        if at < 0:
            return None
        here = here.field(at).type
    found: pa.DataType = here
    return found
