"""Commits made of actions, by way of the bytes that a log would hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.actions.json import encode_commit
from adelta.kernel.commit import Commit, decode_commit

if TYPE_CHECKING:
    from adelta.kernel.actions.json import Action

__all__ = ["commit_of"]


def commit_of(version: int, *actions: Action) -> Commit:
    """The commit of `version` that holds these actions."""
    return decode_commit(version, encode_commit(actions))
