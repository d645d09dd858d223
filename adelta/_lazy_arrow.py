"""pyarrow, loaded when something of it is first used.

It takes as long to load as a table takes to open, and opening one needs nothing of it. A module
that is loaded on the way to a snapshot says ``from adelta._lazy_arrow import pa``, and uses it
inside functions alone.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["pa"]

if TYPE_CHECKING:
    import pyarrow as pa
else:

    class _Lazy(ModuleType):
        """A module that becomes another one at its first use."""

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
            module = import_module(self.__name__)
            own = vars(self)
            found = vars(module).copy()  # at once: other threads may be loading parts of it
            own.update((key, value) for key, value in found.items() if key not in own)
            return getattr(module, name)

    pa = _Lazy("pyarrow")
