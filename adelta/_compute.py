"""Arrow's compute functions by their names, as `pyarrow.compute` has them, made when one is used.

That module makes a Python function of every kernel, with its documentation: a tenth of the time in
which a fresh process opens a table. A module that is loaded on the way to a table's files says
``from adelta import _compute as pc``, and gets functions of the kernels that it calls, and of no
others. What `pyarrow.compute` does beyond calling a kernel, such as `index`, is taken from there,
which methods such as `Array.cast` load as well. `cast` takes no ``safe``: it is safe. Constants
are given to a kernel as Arrow's own values, so that it need not convert them (`_arrow_values`).
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from adelta._arrow_values import scalar_of
from adelta._lazy_arrow import pa

if TYPE_CHECKING:
    from collections.abc import Callable

__all__: list[str] = []

_IN_PYTHON = {"bottom_k_unstable", "index", "random", "top_k_unstable"}
_KEYWORDS = {"and_": "and", "or_": "or"}


def __getattr__(name: str) -> Any:
    """A function or class of `pyarrow.compute`, for good."""
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = _kernel_function(name) or _made_by_arrow(name)
    return value


def fill_null(values: Any, fill: Any) -> Any:
    """As `pyarrow.compute.fill_null`: `values`, and `fill` of their type where they are null."""
    if not isinstance(fill, pa.Array | pa.ChunkedArray | pa.Scalar):
        fill = scalar_of(fill, values.type)
    elif isinstance(fill, pa.Scalar) and not fill.type.equals(values.type):
        fill = scalar_of(fill.as_py(), values.type)
    return _kernels().call_function("coalesce", [values, fill])


@cache
def _constants() -> dict[type, pa.DataType]:
    return {
        bool: pa.bool_(),
        int: pa.int64(),
        float: pa.float64(),
        str: pa.string(),
        bytes: pa.binary(),
    }


def _constant(value: Any) -> Any:
    data_type = _constants().get(type(value))
    return value if data_type is None else scalar_of(value, data_type)


def _made_by_arrow(name: str) -> Any:
    return getattr(import_module("pyarrow.compute"), name)


@cache
def _kernels() -> Any:
    try:
        return import_module("pyarrow._compute")
    except ImportError:  # a later pyarrow may have it elsewhere
        return import_module("pyarrow.compute")


def _kernel_function(name: str) -> Callable[..., Any] | None:
    """What calls the kernel of that name on values; None where that is not all there is to it."""
    if name in _IN_PYTHON:
        return None
    try:
        kernel = _kernels().get_function(_KEYWORDS.get(name, name))
        options_class = kernel._doc.options_class
    except (AttributeError, KeyError):
        return None
    options_of = getattr(_kernels(), options_class) if options_class else None
    arity = None if kernel.arity is Ellipsis else kernel.arity

    def call(*arguments: Any, memory_pool: pa.MemoryPool | None = None, **options: Any) -> Any:
        positional = () if arity is None else arguments[arity:]
        chosen = None
        if options_of is not None and (positional or options):
            arguments, chosen = arguments[:arity], options_of(*positional, **options)
        elif options:
            raise TypeError(f"{name} takes no options")
        return kernel.call([*map(_constant, arguments)], chosen, memory_pool)

    call.__name__ = call.__qualname__ = name
    return call
