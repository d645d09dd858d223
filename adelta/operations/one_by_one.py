"""Files that become one file each, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.actions.file_actions import decode_path
from adelta.write.discarding import discard_data_files

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.operations.matching import MatchedFile
    from adelta.storage.roots import StoreRoots

__all__ = ["one_by_one"]


async def one_by_one(
    roots: StoreRoots,
    files: Iterable[MatchedFile],
    made: Callable[[MatchedFile], Awaitable[AddFile | None]],
) -> tuple[list[AddFile], list[MatchedFile]]:
    """The files that are `made` of others, and those of which none is.

    Where it fails, nothing of it is left.

    Raises: as `made` does.
    """
    done: list[AddFile] = []
    left: list[MatchedFile] = []
    try:
        for matched in files:
            add = await made(matched)
            if add is None:
                left.append(matched)
            else:
                done.append(add)
    except BaseException:
        await discard_data_files(roots.store, [decode_path(add.path) for add in done])
        raise
    return done, left
