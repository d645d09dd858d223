"""How long a commit may take: handles say so before anything that writes is loaded."""

from __future__ import annotations

__all__ = ["COMMIT_TIMEOUT"]

COMMIT_TIMEOUT = 300.0
"""Seconds for which lost races are run again."""
