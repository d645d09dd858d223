"""What a lake says of its tables: `LakeTable`, and `TableChange`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    from datetime import datetime

    from adelta.errors import AdeltaError

__all__ = ["LakeTable", "TableChange"]


@dataclass(frozen=True, slots=True)
class LakeTable:
    """A table of a lake, as the listing of its log shows it.

    Attributes:
        name: its path below the lake's root.
        uri: its address.
        version: its newest version.
        timestamp: when the file of that version was written; aware.
        checkpoint_version: the version of its newest checkpoint; None where none has been seen.
    """

    name: str
    uri: str
    version: int
    timestamp: datetime
    checkpoint_version: int | None


@dataclass(frozen=True, slots=True)
class TableChange:
    """What has become of a table of a lake since it was last told of.

    `kind` is ``added`` of one that was not known, ``updated`` of one that has later versions,
    ``replaced`` where another table is at its place now, ``dropped`` where none is, and ``failed``
    where that could not be found out: `error` says why, and the table is looked at again.

    Attributes:
        kind: what has happened.
        name: the table's path below the lake's root; of a failure it may be that of a folder.
        version: its newest version; None of one that is dropped, or not known.
        previous_version: the one that was told before; None where none was.
        timestamp: when the file of `version` was written; aware.
        error: of one that failed, why.
    """

    kind: Literal["added", "updated", "replaced", "dropped", "failed"]
    name: str
    version: int | None = None
    previous_version: int | None = None
    timestamp: datetime | None = None
    error: AdeltaError | None = None
