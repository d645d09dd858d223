"""What every handle of the blocking face is: an async handle, and how to make it again.

A handle belongs to the process whose loop it lives on. In another process (a forked child, or
wherever it was unpickled) its first use makes it again from its recipe, never from live
connections; one that has no recipe says so. The recipe is either

* the async handle's own: its class says by ``__reduce__`` how it is copied (a table: its address
  and options), or
* the call that made it, on a handle that can be made again (a snapshot: the table's, with the
  version pinned; a scan: the snapshot's).
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar, cast, overload

from adelta._dataclasses import dataclass
from adelta.errors import InvalidUseError
from adelta.sync._enter import Hold
from adelta.sync._portal import Closable, Portal, abandon, call, current, feed, is_current, run

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Handle", "Recipe", "fed", "owner", "unwrap", "unwrap_named"]

A = TypeVar("A")
V = TypeVar("V")
HandleT = TypeVar("HandleT", bound="Handle[Any]")

Owner: TypeAlias = "Handle[Any] | tuple[Handle[Any], ...] | None"


@dataclass(frozen=True, slots=True)
class Recipe:
    """The call on its owner that makes a handle again: a method's name and its arguments."""

    method: str
    args: tuple[object, ...]
    kwargs: Mapping[str, object]

    @classmethod
    def of(cls, method: str, /, *args: object, **kwargs: object) -> Recipe:
        """The recipe ``owner.method(*args, **kwargs)``."""
        return cls(method, args, kwargs)


class Handle(Generic[A]):
    """Base of the blocking handles: stands for one async handle on the portal's loop."""

    __slots__ = ("__weakref__", "_holds", "_live", "_owner", "_portal", "_recipe")

    _copies: ClassVar[bool] = False
    """Whether the async class says itself how it is copied."""

    _live: A | None
    _portal: Portal | None
    _owner: Owner
    _recipe: Recipe | None
    _holds: list[Hold[object]]

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise InvalidUseError(
            f"a {type(self).__name__} is not made by calling its class: functions and methods hand "
            "it out, as in the async face"
        )

    @classmethod
    def _wrap(
        cls: type[HandleT],
        live: object,
        owner: Owner = None,
        recipe: Recipe | None = None,
    ) -> HandleT:
        """The handle of `live`; `owner` itself where `live` is what the owner stands for.

        The owner stays alive as long as the handle: collecting it would close what both use. There
        may be several.
        """
        if isinstance(owner, cls) and owner._live is live:
            return owner
        handle = cls.__new__(cls)
        handle._set(owner, recipe)
        handle._adopt(current(), live)
        return handle

    def _set(self, owner: Owner, recipe: Recipe | None = None) -> None:
        self._live = None
        self._portal = None
        self._owner = owner
        self._recipe = recipe
        self._holds = []

    def _adopt(self, portal: Portal, live: Any) -> None:
        if hasattr(live, "aclose"):
            portal.adopt(live)
        self._live, self._portal = live, portal

    def _async(self) -> A:
        """The async handle, made again if this is another process than the one it was made in.

        Raises:
            InvalidUseError: it cannot be made again.
        """
        portal = current()
        if self._portal is not portal:
            with portal.reopening:
                if self._portal is not portal:
                    fresh = self._again()
                    if self._portal is not None:
                        abandon(self._live)
                    self._adopt(portal, fresh)
        return cast("A", self._live)

    def _again(self) -> Any:
        if self._copies:
            return run(copy.copy, self._live)
        if self._recipe is None or not isinstance(self._owner, Handle):
            raise InvalidUseError(
                f"this {type(self).__name__} belongs to the process that made it, where it has "
                "its state; make another one in this process"
            )
        method = getattr(self._owner._async(), self._recipe.method)
        args = [unwrap(value) for value in self._recipe.args]
        kwargs = {name: unwrap(value) for name, value in self._recipe.kwargs.items()}

        async def again() -> Any:
            made = method(*args, **kwargs)
            return await made if inspect.isawaitable(made) else made

        return call(again)

    def _close(self) -> None:
        """Close the async handle, where it is open in this process."""
        portal = self._portal
        if portal is not None and is_current(portal):
            live = cast("Closable", self._live)
            call(live.aclose)
            portal.disown(live)

    def _enter(self) -> Any:
        """Enter the async handle's block; what it gives."""
        hold: Hold[object] = Hold(cast("Any", self._async()))
        given = hold.__enter__()
        self._holds.append(hold)
        return given

    def _leave(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not self._holds:
            raise InvalidUseError(
                f"this {type(self).__name__} is not open as a block in this process: enter it "
                "with `with`"
            )
        hold = self._holds.pop()
        if hold.foreign:
            return self._leave_foreign(error)
        swallowed = hold.__exit__(kind, error, trace)
        if not self._holds and self._portal is not None:
            self._portal.disown(cast("Any", self._live))
        return swallowed

    def _leave_foreign(self, error: BaseException | None) -> bool:
        """Leave, in a forked child, the block that its parent entered and will leave itself."""
        if hasattr(self._live, "aclose"):
            self._close()
        if error is None and not (self._copies or self._recipe):
            raise InvalidUseError(
                f"this {type(self).__name__} was begun in the process that forked this one; only "
                "that process can end it"
            )
        return False

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        """How the handle is made again where it is unpickled: by its recipe.

        Raises:
            InvalidUseError: it has none.
        """
        if self._copies:
            return _restore, (type(self), self._live, None, None)
        if self._recipe is not None:
            return _restore, (type(self), None, self._owner, self._recipe)
        raise InvalidUseError(
            f"a {type(self).__name__} cannot be pickled: it has state in this process alone; "
            "pickle the table, and make another one where it arrives"
        )

    def __repr__(self) -> str:
        """Which async handle this stands for."""
        name = f"adelta.sync.{type(self).__name__}"
        if self._live is None:
            return f"<{name}, not used in this process yet>"
        return f"<{name} of {self._live!r}>"

    def _repr_html_(self) -> str | None:
        """What a notebook shows: what the async handle says of itself, which waits for nothing."""
        shown = getattr(self._live, "_repr_html_", None)
        return None if shown is None else str(shown())

    def __del__(self) -> None:
        """Close soon what nobody else closes, without waiting: collectors run on any thread."""
        portal: Portal | None = getattr(self, "_portal", None)
        if portal is None:  # it was never made, or never used since it was unpickled
            return
        if not is_current(portal):
            abandon(self._live)
            return
        for hold in self._holds:
            hold.drop()
        if hasattr(self._live, "aclose"):
            portal.release(cast("Closable", self._live))


def _restore(cls: type[HandleT], live: object, owner: Owner, recipe: Recipe | None) -> HandleT:
    handle = cls.__new__(cls)
    handle._set(owner, recipe)
    handle._live = live
    return handle


@overload
def unwrap(value: Handle[A]) -> A: ...
@overload
def unwrap(value: V) -> V: ...
def unwrap(value: object) -> object:
    """The async handle that `value` stands for; any other value as it is.

    Raises:
        InvalidUseError: the handle belongs to another process and cannot be made again.
    """
    return value._async() if isinstance(value, Handle) else value


def unwrap_named(values: Any) -> Any:
    """A mapping with the async handles that its values stand for; any other value as it is.

    Raises:
        InvalidUseError: as `unwrap` does.
    """
    if not isinstance(values, Mapping):
        return values
    return {name: unwrap(value) for name, value in values.items()}


def owner(value: object) -> Owner:
    """`value` if it is a handle, or the handles in it, which must outlive what is made of them."""
    if isinstance(value, tuple):
        return tuple(one for one in value if isinstance(one, Handle))
    return value if isinstance(value, Handle) else None


def fed(data: object) -> Any:
    """`data`, as the async face takes it: what produces its items by running code is fed to it.

    Arrow data and sequences are passed as they are.
    """
    if (
        isinstance(data, (AsyncIterable, Mapping, Sequence))
        or hasattr(data, "__arrow_c_stream__")
        or not isinstance(data, Iterable)
    ):
        return data
    return feed(data)
