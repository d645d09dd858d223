"""What a package offers, loaded when it is first named.

`exports` is called once by a package's ``__init__``, which thereby imports none of its modules::

    if TYPE_CHECKING:
        from lake.operations.delete import delete as delete

    __all__ = exports(__name__, {"lake.operations.delete": ("delete",)})

The imports for type checkers say the same as the table; a test compares the two. A function may
bear the name of its module: the name is the function's, whichever of the two is loaded first.
"""

from __future__ import annotations

import sys
from importlib import import_module
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["exports"]


def exports(
    package: str, homes: Mapping[str, Iterable[str]], modules: Iterable[str] = ()
) -> list[str]:
    """The public names of `package`, in order; each is loaded when it is first asked for.

    `homes` says which names come from which module. `modules` of the package can be reached as its
    attributes without being imported first; they are not among the names.
    """
    found = sys.modules[package]
    found.__class__ = _Package
    vars(found)["_homes"] = {name: home for home, names in homes.items() for name in names}
    vars(found)["_modules"] = frozenset(modules)
    return sorted(name for name in vars(found)["_homes"] if not name.startswith("_"))


# Threads that loaded modules of one package from two ends would wait for each other.
_loading = RLock()


class _Package(ModuleType):
    """A package whose names are loaded on demand."""

    _homes: Mapping[str, str]
    _modules: frozenset[str]

    def __getattr__(self, name: str) -> Any:
        if name in self._modules:
            with _loading:
                return import_module(f"{self.__name__}.{name}")
        if (home := self._homes.get(name)) is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        with _loading:
            value = vars(self)[name] = getattr(import_module(home), name)
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        """By its name, as functions that use it go to other processes, such as Spark's."""
        return import_module, (self.__name__,)

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute, unless the import system binds a module to a name that is offered."""
        if name not in self._homes or getattr(value, "__name__", "") != f"{self.__name__}.{name}":
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._homes, *self._modules})
