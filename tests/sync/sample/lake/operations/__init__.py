from __future__ import annotations

from lake.operations.create import create_table
from lake.operations.history import history
from lake.operations.merge import merge

__all__ = ["create_table", "history", "merge"]
