"""CommitOptions: what the commits of a handle say beside, and how they are made."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import orjson

from adelta._arguments import check_count, check_flag, check_optional_text, check_pair
from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError
from adelta.kernel.actions.commit_info import NAMED_ENTRIES
from adelta.kernel.actions.set_transaction import SetTransaction
from adelta.write.spec import AS_THE_TABLE_SAYS, DataFileOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adelta.kernel.staged import StagedChanges

__all__ = ["AS_USUAL", "CHANGES_OF_ROWS", "CommitOptions", "as_options_say"]

CHANGES_OF_ROWS = frozenset({"DELETE", "MERGE", "UPDATE", "WRITE"})
"""The operations that may be known as the work of an application."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOptions:
    """What commits say beside what they always say, how they are made, and what follows them.

    Attributes:
        commit_info: further entries of the log's `commitInfo`, which the history shows: any JSON,
            under names that adelta does not write by itself.
        parameters: further entries of `operationParameters`, behind those of the operation.
        user_metadata: what the history says for the user, where the operation is not told it.
        set_transactions: how far applications have got, recorded with each commit. Unlike
            `Transaction.set_transaction` this skips nothing that the table shows as done before;
            who comes to record the same at the same moment is still told from who comes first.
        txn: an application's id and the number of its change of rows, recorded with it: what
            deletes, updates, merges or writes is skipped where the table shows it as done.
        max_retries: how many races may be lost before a commit is given up; None is as many as the
            time allows.
        checkpoint: whether a commit writes the checkpoint that is due after it.
        data_files: how data files are written, by operations that are not told so themselves, be it
            that they take in rows or write rows of the table anew.
        clean_up: whether a checkpoint is followed by a clean-up of what has expired in the log;
            None is the table's property ``delta.enableExpiredLogCleanup``.

    Raises:
        InvalidOptionError: an entry is one of adelta's own, or no JSON, or a value is of the wrong
            type.
    """

    commit_info: Mapping[str, object] = field(default_factory=dict, hash=False)
    parameters: Mapping[str, object] = field(default_factory=dict, hash=False)
    user_metadata: str | None = None
    set_transactions: Sequence[SetTransaction] = ()
    txn: tuple[str, int] | None = None
    max_retries: int | None = None
    checkpoint: bool = True
    clean_up: bool | None = None
    data_files: DataFileOptions = AS_THE_TABLE_SAYS

    def __post_init__(self) -> None:
        check_optional_text("user_metadata", self.user_metadata)
        if self.txn is not None:
            check_pair("txn", self.txn)
        check_count("max_retries", self.max_retries)
        check_flag("checkpoint", self.checkpoint)
        if self.clean_up is not None:
            check_flag("clean_up", self.clean_up)
        if not isinstance(self.data_files, DataFileOptions):
            raise InvalidOptionError(
                f"data_files is {self.data_files!r:.100}; pass adelta.DataFileOptions(...)"
            )
        _check_json("commit_info", self.commit_info)
        _check_json("parameters", self.parameters)
        for name in self.commit_info:
            if name in NAMED_ENTRIES:
                raise InvalidOptionError(
                    f"adelta writes {name!r} into commitInfo by itself; choose another name, or "
                    "pass parameters and user_metadata as such"
                )
        if not all(isinstance(one, SetTransaction) for one in self.set_transactions):
            raise InvalidOptionError("set_transactions holds what is no adelta.SetTransaction")

    def applied_by(self, operation: str) -> tuple[str, int] | None:
        """The application, and the number of its work, that the changes of an operation are."""
        return self.txn if operation in CHANGES_OF_ROWS else None

    def _told(self, staged: StagedChanges) -> StagedChanges:
        """The changes of a commit, with what is said of them as a whole: nothing more, here."""
        return staged


def as_options_say(staged: StagedChanges, options: CommitOptions, now_ms: int) -> StagedChanges:
    """The changes, as a commit with these options says them."""
    if options is AS_USUAL:
        return staged
    mine = tuple(
        one if one.last_updated is not None else replace(one, last_updated=now_ms)
        for one in {each.app_id: each for each in options.set_transactions}.values()
    )
    named = {each.app_id for each in mine}
    others = tuple(each for each in staged.set_transactions if each.app_id not in named)
    return options._told(
        replace(
            staged,
            commit_info=dict(options.commit_info),
            parameters={**options.parameters, **staged.parameters},
            user_metadata=staged.user_metadata or options.user_metadata,
            set_transactions=(*others, *mine),
        )
    )


def _check_json(name: str, value: Any) -> None:
    try:
        orjson.dumps(dict(value))
    except (TypeError, ValueError) as error:
        raise InvalidOptionError(
            f"{name} is {value!r:.200}; pass a mapping of texts to what JSON can hold ({error})"
        ) from error


AS_USUAL = CommitOptions()
"""The options of commits of which nothing is asked."""
