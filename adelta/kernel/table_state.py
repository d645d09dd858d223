"""What a table is at one version, before anybody has asked whether it can be read or written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from adelta.kernel.table_properties import TableProperties

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.schema.types import StructType

__all__ = ["TableState"]


@dataclass(frozen=True, slots=True)
class TableState:
    """The protocol and the metadata of one version: all that table features are judged by."""

    protocol: Protocol
    metadata: Metadata

    @property
    def schema(self) -> StructType:
        """The table's logical columns.

        Raises:
            InvalidTableError: the schema string is not a schema.
        """
        return self.metadata.schema

    @property
    def configuration(self) -> Mapping[str, str]:
        """The table's properties as they are stored."""
        return self.metadata.configuration

    @property
    def properties(self) -> TableProperties:
        """The table's properties by name and type."""
        return TableProperties(self.metadata.configuration)
