"""The `txn` action: how far an application has got (PROTOCOL.md, "Transaction Identifiers")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adelta._dataclasses import dataclass
from adelta.errors import InvalidTableError
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
        """The value of a decoded `txn` action.

        Raises:
            InvalidTableError: it names no application, or no version.
        """
        app_id, version = raw.get("appId"), raw.get("version")
        if (
            not isinstance(app_id, str)
            or type(version) is not int
            or not -(2**63) <= version < 2**63
        ):
            raise InvalidTableError(
                f"a txn action sets {str(app_id)[:100]!r} to {str(version)[:100]!r}; it must set "
                "the name of an application to a whole number of 64 bits"
            )
        updated = raw.get("lastUpdated")
        return cls(app_id, version, updated if is_time(updated) else None)

    def to_json(self) -> dict[str, Any]:
        """The action's body as the log writes it."""
        body: dict[str, Any] = {"appId": self.app_id, "version": self.version}
        if self.last_updated is not None:
            body["lastUpdated"] = self.last_updated
        return body
