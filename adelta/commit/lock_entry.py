"""LockEntry: what the lock table in DynamoDB says of one commit (S3DynamoDBLogStore's layout)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError, InvalidTableError
from adelta.kernel.log_path import LOG_DIR
from adelta.storage.object_path import check_path

if TYPE_CHECKING:
    from adelta.storage.dynamodb import Item

__all__ = ["LockEntry"]


@dataclass(frozen=True, slots=True)
class LockEntry:
    """One entry of the lock table; `temp_path` is relative to `_delta_log`."""

    table_path: str
    file_name: str
    temp_path: str
    complete: bool

    @classmethod
    def of(cls, item: Item) -> LockEntry:
        """The entry that an item is.

        Raises:
            InvalidTableError: it is none.
        """
        names = ("tablePath", "fileName", "tempPath", "complete")
        texts = [item.get(name) for name in names]
        if not all(isinstance(text, str) for text in texts):
            raise InvalidTableError(
                f"the lock table has an entry that lacks one of {', '.join(names)}: {item}; "
                "correct or delete it"
            )
        path, file, temp, complete = map(str, texts)
        entry = cls(path, file, temp, complete == "true")
        try:
            if "/" in file or check_path(entry.source) == check_path(entry.target):
                raise InvalidOptionError("a file is not put where it is, nor outside of the log")
        except InvalidOptionError as error:
            raise InvalidTableError(
                f"the lock table has an entry that names no files of a log: {item}; delete it"
            ) from error
        return entry

    @property
    def item(self) -> Item:
        """The item of a commit that is not in the log yet, or of one that is."""
        return {
            "tablePath": self.table_path,
            "fileName": self.file_name,
            "tempPath": self.temp_path,
            "complete": "true" if self.complete else "false",
        }

    @property
    def target(self) -> str:
        """Where the bytes belong."""
        return LOG_DIR + self.file_name

    @property
    def source(self) -> str:
        """Where the bytes are put first."""
        return LOG_DIR + self.temp_path
