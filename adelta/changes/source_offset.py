"""SourceOffset: how far a stream has read a table, as Delta's own sources write it down.

The text is theirs, so that either goes on from what the other has left in a checkpoint. Within a
commit, and within the files that a stream begins with, what was read last has an index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adelta._dataclasses import dataclass
from adelta.errors import ChangesNotAvailableError, InvalidOptionError, UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["AT_METADATA", "BEFORE_ALL", "SourceOffset"]

BEFORE_ALL = -100
"""The index before everything of a version."""

_BEFORE_ALL_IN_TEXT = -1
AT_METADATA = -20
"""The index of a commit's change of metadata, where a source that tracks schemas stops."""

_AFTER_METADATA = -19
_PLAIN, _RESERVED, _WITH_METADATA = 1, 2, 3  # versions of the text
_BY_EVENT_TIME = 1_000  # ours, which no other source may take for an index of files
_KEYS = ("sourceVersion", "reservoirId", "reservoirVersion", "index", "isStartingVersion")


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """Everything of `version` up to `index` has been read, and all that came before.

    With `is_initial` the index counts the files that the version has, by modification time and
    path; else those that its commit adds. With `event_time`, microseconds since 1970, it is those
    rows of that version that have been read whose time lies before it; the index is 0 then.
    """

    table_id: str
    version: int
    index: int = BEFORE_ALL
    is_initial: bool = False
    event_time: int | None = None

    @property
    def order(self) -> tuple[int, int, int]:
        """What offsets of a table are ordered by."""
        return self.version, self.index, self.event_time or 0

    @property
    def at_metadata(self) -> bool:
        """Whether a source that tracks schemas stopped at a commit's change of metadata."""
        return self.index in (AT_METADATA, _AFTER_METADATA)

    def check_order(self, *, by_time: bool) -> None:
        """Hold the order of the rows that a stream has begun with to the one that is asked for.

        Raises:
            InvalidOptionError: it is the other one.
        """
        if not self.is_initial or self.index == BEFORE_ALL:
            return
        if by_time != (self.event_time is not None):
            raise InvalidOptionError(
                "the checkpoint is in the midst of the rows that the stream begins with, "
                f"{'without' if by_time else 'with'} withEventTimeOrder; go on so until all of "
                "them are read, or give the stream a new checkpoint"
            )

    def to_json(self) -> dict[str, Any]:
        """The text form, as what becomes JSON."""
        if self.event_time is not None:
            return {**self._as_json(_BY_EVENT_TIME), "eventTime": self.event_time}
        return self._as_json(_WITH_METADATA if self.at_metadata else _PLAIN)

    def _as_json(self, kind: int) -> dict[str, Any]:
        return {
            "sourceVersion": kind,
            "reservoirId": self.table_id,
            "reservoirVersion": self.version,
            "index": _BEFORE_ALL_IN_TEXT if self.index == BEFORE_ALL else self.index,
            "isStartingVersion": self.is_initial,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any], table_id: str) -> SourceOffset:
        """The offset that a text form stands for, which is to be of the table `table_id`.

        Raises:
            InvalidOptionError: it is none.
            UnsupportedFeatureError: it is of a later kind than adelta knows.
            ChangesNotAvailableError: it is of another table.
        """
        kinds = (int, str, int, int, bool)
        found = [raw.get(key) for key in _KEYS]
        if not all(type(value) is kind for value, kind in zip(found, kinds, strict=True)):
            raise InvalidOptionError(
                f"the checkpoint has no offset of a Delta table, but {dict(raw)!r:.200}; give the "
                "stream a checkpoint of its own"
            )
        kind, id, version, index, is_initial = found
        time = raw.get("eventTime") if kind == _BY_EVENT_TIME else None
        if kind not in (_PLAIN, _WITH_METADATA) and not (type(time) is int and is_initial):
            raise UnsupportedFeatureError(
                f"the checkpoint has an offset of the source version {kind}, and adelta knows "
                f"{_PLAIN} and {_WITH_METADATA}; go on with what wrote it, or with a new checkpoint"
            )
        if id != table_id:
            raise ChangesNotAvailableError(
                f"the checkpoint is of the table with the id {id}, and this one has the id "
                f"{table_id}: it was dropped and made anew, or another one is read; give the "
                "stream a new checkpoint"
            )
        assert isinstance(index, int)
        if kind == _PLAIN and index == _BEFORE_ALL_IN_TEXT:
            index = BEFORE_ALL
        return cls(id, version, index, is_initial, time)  # type: ignore[arg-type]  # looked at above
