"""The `commitInfo` action: who did what, and with what effect.

PROTOCOL.md, "Commit Provenance".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

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
            name = _KNOWN.get(key)
            if value is None:
                continue
            if name is None or not _fits(name, value):
                others[key] = value
            else:
                named[name] = value
        return cls(**named, others=others)

    def to_json(self) -> dict[str, Any]:
        """The action's body as the log writes it; absent fields are left out."""
        body: dict[str, Any] = {}
        for key, name in _KNOWN.items():
            value = getattr(self, name)
            if isinstance(value, Mapping):
                if value or name == "operation_parameters":
                    body[key] = dict(value)
            elif value is not None:
                body[key] = value
        body.update(self.others)
        return body


def _fits(name: str, value: object) -> bool:
    if name in ("operation_parameters", "operation_metrics", "tags"):
        return isinstance(value, Mapping)
    if name == "is_blind_append":
        return isinstance(value, bool)
    if name in ("timestamp", "in_commit_timestamp"):
        return is_time(value)
    if name == "read_version":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, str)


def is_time(value: object) -> TypeGuard[int]:
    """Whether a decoded value is a time in ms since the Unix epoch, within Python's calendar."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole and isinstance(value, int) and _YEAR_1 <= value <= _YEAR_9999
