"""The `protocol` action: which clients may read and write a table.

PROTOCOL.md, "Protocol Evolution".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adelta._dataclasses import dataclass
from adelta.errors import InvalidTableError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["TABLE_FEATURES_READER", "TABLE_FEATURES_WRITER", "Protocol"]

TABLE_FEATURES_READER = 3
TABLE_FEATURES_WRITER = 7


@dataclass(frozen=True, slots=True)
class Protocol:
    """Reader and writer versions, and the names of table features where the versions allow them.

    Lists of features belong to the reader version 3 and the writer version 7: with these there is
    one, if it is empty, and with lower versions there is none. Names are sorted, each once.
    """

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Take the lists for what they say, whoever makes the value."""
        for name, version, least in (
            ("reader_features", self.min_reader_version, TABLE_FEATURES_READER),
            ("writer_features", self.min_writer_version, TABLE_FEATURES_WRITER),
        ):
            listed = getattr(self, name) or ()
            named = isinstance(listed, tuple | list) and all(isinstance(n, str) for n in listed)
            if type(version) is int and named:
                known = tuple(sorted(set(listed))) if version >= least else None
                object.__setattr__(self, name, known)

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
            _names(raw.get("readerFeatures")),
            _names(raw.get("writerFeatures")),
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


def _names(raw: object) -> tuple[str, ...]:
    if raw is None:
        return ()
    if not isinstance(raw, (list, tuple)) or not all(isinstance(name, str) for name in raw):
        raise InvalidTableError(f"the protocol action lists its features as {str(raw)[:100]!r}")
    return tuple(raw)
