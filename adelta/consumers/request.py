"""What a consumer is asked for, checked."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias

from adelta._arguments import (
    check_choice,
    check_count,
    check_flag,
    check_names,
    check_seconds,
    check_text,
)
from adelta._dataclasses import dataclass
from adelta.changes.source_rules import SourceRules
from adelta.errors import InvalidOptionError
from adelta.kernel.position import Position

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ConsumerRequest", "OnLost", "OnRewrite", "Share", "Start", "What", "check_start"]

What: TypeAlias = Literal["rows", "changes", "commits"]
OnLost: TypeAlias = Literal["fail", "skip", "resnapshot"]
OnRewrite: TypeAlias = Literal["fail", "skip", "read"]
Start: TypeAlias = int | datetime | str | Position
Share: TypeAlias = tuple[str, int, int]

_LONGEST_HOLD = timedelta(days=366)

_REMEDY = (
    "pass such commits over with on_rewrite='skip', take the rows of files that were written anew "
    "once more with on_rewrite='read', or read the changes themselves with of='changes'"
)


@dataclass(frozen=True, slots=True)
class ConsumerRequest:
    """The arguments of a `Consumer` that say what is read, and how much at a time."""

    of: What
    start: Start
    columns: tuple[str, ...] | None
    share: Share | None
    max_rows: int
    max_files: int
    max_bytes: int
    max_delay: float
    on_rewrite: OnRewrite
    on_lost: OnLost
    hold: timedelta | None
    poll: float
    follow: bool

    @classmethod
    def checked(
        cls,
        *,
        of: What,
        start: Start | None,
        columns: Sequence[str] | None,
        share: Share | None,
        max_rows: int,
        max_files: int,
        max_bytes: int,
        max_delay: float,
        on_rewrite: OnRewrite,
        on_lost: OnLost,
        hold: timedelta | None,
        poll: float,
        follow: bool,
    ) -> ConsumerRequest:
        """The request.

        Raises:
            InvalidOptionError: an argument is not as `Consumer` says.
        """
        check_choice("of", of, ("rows", "changes", "commits"))
        check_choice("on_rewrite", on_rewrite, ("fail", "skip", "read"))
        check_choice("on_lost", on_lost, ("fail", "skip", "resnapshot"))
        for name, value in (
            ("max_rows", max_rows),
            ("max_files", max_files),
            ("max_bytes", max_bytes),
        ):
            check_count(name, value, least=1, optional=False)
        check_seconds("max_delay", max_delay)
        check_flag("follow", follow)
        if check_seconds("poll", poll) <= 0:
            raise InvalidOptionError(f"poll is the longest pause in seconds; {poll} is none")
        held: object = hold
        if held is not None and not (
            isinstance(held, timedelta) and timedelta(0) < held <= _LONGEST_HOLD
        ):
            raise InvalidOptionError(
                f"hold is {hold!r:.100}; pass a timedelta of a year at the most: how long the log "
                "is kept for the consumer after it has last acknowledged a batch"
            )
        if start is None:
            start = 0 if of == "commits" else "snapshot"
        check_start(start)
        if of == "commits":
            if start == "snapshot" or on_lost == "resnapshot":
                raise InvalidOptionError(
                    "a consumer of commits begins with a commit, and there is no snapshot of them; "
                    "choose a version to start from, or 'latest', and another on_lost"
                )
            if columns is not None or share is not None:
                raise InvalidOptionError(
                    "commits have no columns to choose, and no key to share by; read rows or "
                    "changes"
                )
        return cls(
            of,
            start,
            None if columns is None else tuple(check_names("columns", columns)),
            _checked_share(share),
            max_rows,
            max_files,
            max_bytes,
            max_delay,
            on_rewrite,
            on_lost,
            hold,
            poll,
            follow,
        )

    @property
    def rules(self) -> SourceRules:
        """How the table's log is read."""
        return SourceRules(
            start=0,
            read_changes=self.of == "changes",
            ignore_changes=self.on_rewrite == "read",
            skip_change_commits=self.on_rewrite == "skip",
            stops_at_metadata=True,
            remedy=_REMEDY,
        )


def check_start(start: object) -> None:
    """Refuse what is no place to start from.

    Raises:
        InvalidOptionError: it is none.
    """
    if isinstance(start, bool) or not isinstance(start, int | datetime | str | Position):
        raise InvalidOptionError(
            f"{start!r:.100} is no place to start from: pass a version, a time, a Position, "
            "'snapshot' or 'latest'"
        )
    if isinstance(start, int):
        check_count("start", start)


def _checked_share(share: object) -> Share | None:
    if share is None:
        return None
    if isinstance(share, tuple | list) and len(share) == 3:
        key, number, of = share
        check_text("the key of share", key)
        if type(number) is int and type(of) is int and 0 <= number < of:
            return key, number, of
    raise InvalidOptionError(
        f"share is {share!r:.100}; pass (column, number, count): the rows of which the column's "
        "hash belongs to this one of so many consumers, whose numbers begin with 0"
    )
