"""What follows a commit: upkeep of the log, which never looks like a failure of the commit."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from adelta.log.checkpoint_writer import checkpoint_if_due

if TYPE_CHECKING:
    from adelta.log.state import LogState

__all__ = ["after_commit"]

_log = logging.getLogger("adelta.transaction")


async def after_commit(state: LogState) -> None:
    """Do what is due after the commit that made `state`; failures are logged as warnings."""
    try:
        await checkpoint_if_due(state)
    except Exception as error:
        _log.warning(
            "%s: version %d is committed, but its checkpoint could not be written: %s",
            state.root,
            state.version,
            error,
        )
