"""The `commitInfo` action: who did what, and with what effect.

PROTOCOL.md, "Commit Provenance".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, TypeGuard

from adelta._dataclasses import dataclass

__all__ = ["NAMED_ENTRIES", "CommitInfo", "is_time"]

_YEAR_1, _YEAR_9999 = -62_135_596_800_000, 253_402_300_799_999  # the first ms, and the last one

_KNOWN = {
    "timestamp": "timestamp",
    "inCommitTimestamp": "in_commit_timestamp",
    "operation": "operation",
    "operationParameters": "operation_parameters",
    "operationMetrics": "operation_metrics",
    "readVersion": "read_version",
    "isolationLevel": "isolation_level",
    "isBlindAppend": "is_blind_append",
    "engineInfo": "engine_info",
    "txnId": "txn_id",
    "userMetadata": "user_metadata",
    "tags": "tags",
}

_ALWAYS_WRITTEN = ("operation_parameters", "operation_metrics")

NAMED_ENTRIES = frozenset(_KNOWN)
"""The entries of `commitInfo` that have a field here."""


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """Provenance of one commit. Writers may put anything here, so every field may be absent.

    Times are in milliseconds since the Unix epoch. `others` holds the fields without a name here.
    """

    timestamp: int | None = None
    in_commit_timestamp: int | None = None
    operation: str | None = None
    operation_parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)
    operation_metrics: Mapping[str, Any] = field(default_factory=dict, hash=False)
    read_version: int | None = None
    isolation_level: str | None = None
    is_blind_append: bool | None = None
    engine_info: str | None = None
    txn_id: str | None = None
    user_metadata: str | None = None
    tags: Mapping[str, Any] = field(default_factory=dict, hash=False)
    others: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> CommitInfo:
        """The value of a decoded `commitInfo`; values of unexpected kinds are kept as others."""
        named: dict[str, Any] = {}
        others: dict[str, Any] = {}
        for key, value in raw.items():
            if value is None:
                continue
            name = _KNOWN.get(key)
            if name is None or not _FITS.get(name, _is_text)(value):
                others[key] = value
            else:
                named[name] = value
        return cls(**named, others=others)

    def unshared(self) -> CommitInfo:
        """The same, with dictionaries and lists of its own."""
        return replace(
            self,
            operation_parameters=_copied(self.operation_parameters),
            operation_metrics=_copied(self.operation_metrics),
            tags=_copied(self.tags),
            others=_copied(self.others),
        )

    def to_json(self) -> dict[str, Any]:
        """The action's body as the log writes it; absent fields are left out.

        Parameters and metrics are written even where they are empty, as Delta Spark does.
        """
        body: dict[str, Any] = {}
        for key, name in _KNOWN.items():
            value = getattr(self, name)
            if isinstance(value, Mapping):
                if value or name in _ALWAYS_WRITTEN:
                    body[key] = dict(value)
            elif value is not None:
                body[key] = value
        body.update(self.others)
        return body


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    return [*map(_copied, value)] if isinstance(value, list) else value


def is_time(value: object) -> TypeGuard[int]:
    """Whether a decoded value is a time in ms since the Unix epoch, within Python's calendar."""
    return type(value) is int and _YEAR_1 <= value <= _YEAR_9999


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_mapping(value: object) -> bool:
    return isinstance(value, (dict, Mapping))  # of which the first is told far sooner


_FITS: Mapping[str, Callable[[object], bool]] = {
    "timestamp": is_time,
    "in_commit_timestamp": is_time,
    "operation_parameters": _is_mapping,
    "operation_metrics": _is_mapping,
    "tags": _is_mapping,
    "read_version": lambda value: type(value) is int,
    "is_blind_append": lambda value: isinstance(value, bool),
}
"""What the values of fields that are not text have to be."""
