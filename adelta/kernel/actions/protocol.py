"""The `protocol` action: which clients may read and write a table.

PROTOCOL.md, "Protocol Evolution".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adelta.errors import InvalidTableError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["TABLE_FEATURES_READER", "TABLE_FEATURES_WRITER", "Protocol"]

TABLE_FEATURES_READER = 3
TABLE_FEATURES_WRITER = 7


@dataclass(frozen=True, slots=True)
class Protocol:
    """Reader and writer versions, and the names of table features where the versions allow them.

    `reader_features` is None unless the reader version is 3, `writer_features` is None unless the
    writer version is 7; both are sorted.
    """

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Protocol:
        """The value of a decoded `protocol` action.

        Raises:
            InvalidTableError: a version is missing or is not a positive whole number.
        """
        versions = (raw.get("minReaderVersion"), raw.get("minWriterVersion"))
        for version in versions:
            if not isinstance(version, int) or isinstance(version, bool) or version < 1:
                raise InvalidTableError(
                    f"the protocol action asks for versions {str(versions)[:100]}; "
                    "both must be whole numbers from 1 up"
                )
        reader, writer = int(versions[0] or 0), int(versions[1] or 0)
        return cls(
            reader,
            writer,
            _names(raw.get("readerFeatures"), reader >= TABLE_FEATURES_READER),
            _names(raw.get("writerFeatures"), writer >= TABLE_FEATURES_WRITER),
        )

    def to_json(self) -> dict[str, Any]:
        """The action's body as the log writes it."""
        body: dict[str, Any] = {
            "minReaderVersion": self.min_reader_version,
            "minWriterVersion": self.min_writer_version,
        }
        if self.reader_features is not None:
            body["readerFeatures"] = list(self.reader_features)
        if self.writer_features is not None:
            body["writerFeatures"] = list(self.writer_features)
        return body


def _names(raw: object, expected: bool) -> tuple[str, ...] | None:
    if raw is None:
        return () if expected else None
    if not isinstance(raw, (list, tuple)) or not all(isinstance(name, str) for name in raw):
        raise InvalidTableError(f"the protocol action lists its features as {str(raw)[:100]!r}")
    return tuple(sorted(set(raw))) if expected else None
