"""WriteKind: what a write does to the table that is there, and which wishes go together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from adelta._arguments import check_choice
from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError
from adelta.kernel.expressions.sql import to_sql

if TYPE_CHECKING:
    from adelta.kernel.expressions.nodes import Node

__all__ = ["PartitionOverwrite", "SchemaMode", "WriteKind", "WriteMode"]

WriteMode = Literal["append", "overwrite", "error", "ignore"]
"""What to do where there is a table already."""

SchemaMode = Literal["merge", "overwrite"]
"""How the table's columns follow those of the data."""

PartitionOverwrite = Literal["static", "dynamic"]
"""Whether an overwrite replaces all rows, or those in the partitions of the new ones."""

_MODES = {
    "append": "Append",
    "overwrite": "Overwrite",
    "error": "ErrorIfExists",
    "ignore": "Ignore",
}
_SCHEMA_PARAMETERS = {"merge": "canMergeSchema", "overwrite": "canOverwriteSchema"}


@dataclass(frozen=True, slots=True)
class WriteKind:
    """How a write treats the rows and columns that are there; `replace_where` picks some rows.

    Once it is bound to a table, `predicate` is the text that it was asked for by.

    Raises:
        InvalidOptionError: an argument is not allowed, or not beside another one.
    """

    mode: WriteMode = "append"
    schema_mode: SchemaMode | None = None
    replace_where: Node | None = None
    partition_overwrite: PartitionOverwrite = "static"
    predicate: str | None = None

    def __post_init__(self) -> None:
        check_choice("mode", self.mode, _MODES)
        if self.schema_mode is not None:
            check_choice("schema_mode", self.schema_mode, _SCHEMA_PARAMETERS)
        check_choice("partition_overwrite", self.partition_overwrite, ("static", "dynamic"))
        partial = self._partial
        if self.mode != "overwrite":
            needing = 'schema_mode="overwrite"' if self.schema_mode == "overwrite" else partial
            if needing is not None:
                raise InvalidOptionError(
                    f'{needing} goes with mode="overwrite" only, and the mode is {self.mode!r}'
                )
        if self.schema_mode == "overwrite" and partial is not None:
            raise InvalidOptionError(
                f"{partial} keeps rows of the table, so its schema cannot be overwritten; choose "
                'schema_mode="merge", or overwrite all rows',
                reason=None if self.replace_where is not None else "schema_of_partitions",
            )
        if self.replace_where is not None and self.partition_overwrite == "dynamic":
            raise InvalidOptionError(
                "replace_where says which rows are replaced, and so does "
                'partition_overwrite="dynamic"; choose one of them',
                reason="replaced_by_two",
            )

    @property
    def _partial(self) -> str | None:
        """The argument by which only a part of the table is overwritten."""
        if self.replace_where is not None:
            return "replace_where"
        return 'partition_overwrite="dynamic"' if self.partition_overwrite == "dynamic" else None

    @property
    def parameters(self) -> dict[str, object]:
        """What the history says of the write, but for the partition columns."""
        said: dict[str, object] = {"mode": _MODES[self.mode]}
        if self.replace_where is not None:
            said["predicate"] = self.predicate or to_sql(self.replace_where)
        if self.partition_overwrite == "dynamic":
            said["isDynamicPartitionOverwrite"] = "true"
        if self.schema_mode is not None:
            said[_SCHEMA_PARAMETERS[self.schema_mode]] = "true"
        return said
