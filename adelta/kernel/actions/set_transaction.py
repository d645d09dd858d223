"""The `txn` action: how far an application has got (PROTOCOL.md, "Transaction Identifiers")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adelta.kernel.actions.commit_info import is_time

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["SetTransaction"]


@dataclass(frozen=True, slots=True)
class SetTransaction:
    """The latest version that the application `app_id` has committed; `last_updated` in ms."""

    app_id: str
    version: int
    last_updated: int | None = None

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> SetTransaction:
        """The value of a decoded `txn` action."""
        updated = raw.get("lastUpdated")
        return cls(str(raw["appId"]), int(raw["version"]), updated if is_time(updated) else None)

    def to_json(self) -> dict[str, Any]:
        """The action's body as the log writes it."""
        body: dict[str, Any] = {"appId": self.app_id, "version": self.version}
        if self.last_updated is not None:
            body["lastUpdated"] = self.last_updated
        return body
