"""OpenTelemetry's spans and metrics, where the program itself has loaded its API.

adelta never imports it: without it a span is one look at the loaded modules. A program that traces
has loaded `opentelemetry.trace` long before, and one that measures `opentelemetry.metrics`. What
fails in there, such as an exporter, is no failure of an operation or a commit.
"""

from __future__ import annotations

import logging
import sys
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from adelta._clock import monotonic
from adelta._secrets import without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

__all__ = ["Span", "add", "detached_span", "is_observed", "operation", "span"]

_log = logging.getLogger("adelta.operations")

_SCOPE = "adelta"
_TRACE, _METRICS = "opentelemetry.trace", "opentelemetry.metrics"
_UNITS = {
    "adelta.store.requests": "{request}",
    "adelta.store.io": "By",
    "adelta.store.retries": "{request}",
    "adelta.commit.attempts": "{attempt}",
    "adelta.commit.lost_races": "{commit}",
}
_tracers: dict[str, tuple[object, Any]] = {}
_counters: dict[str, tuple[object, Any]] = {}


class Span:
    """A span under way, which can be told more; without a tracer it takes note of nothing."""

    __slots__ = ("_span",)

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def tell(self, **attributes: Any) -> None:
        """Add attributes, which get the prefix ``adelta.``; those that are None are left out."""
        if self._span is not None:
            with suppress(Exception):
                self._span.set_attributes(_named(attributes))


_Spanning: TypeAlias = "AbstractContextManager[Span]"
_NOTHING: _Spanning = nullcontext(Span())


def span(name: str, **attributes: Any) -> _Spanning:
    """A block of code as a span, in which further ones are below it; errors are noted."""
    trace = sys.modules.get(_TRACE)
    return _NOTHING if trace is None else _current(trace, name, attributes)


def detached_span(name: str, **attributes: Any) -> _Spanning:
    """A span below the one of the moment, for a block that gives up control: a generator's."""
    trace = sys.modules.get(_TRACE)
    return _NOTHING if trace is None else _detached(trace, name, attributes)


def is_observed() -> bool:
    """Whether anybody is told of operations: by spans, or in the log."""
    return _TRACE in sys.modules or _log.isEnabledFor(logging.DEBUG)


@contextmanager
def operation(name: str, table: object) -> Iterator[Span]:
    """One call of a public operation, which is a span, and a line of the log at its end."""
    shown = None if table is None else without_secrets(str(getattr(table, "uri", table)))
    began = monotonic()
    outcome = "done"
    try:
        with span(f"adelta.{name}", table=shown) as found:
            yield found
    except BaseException as error:
        outcome = type(error).__name__
        raise
    finally:
        _log.debug("%s %s: %s in %.3f s", name, shown, outcome, monotonic() - began)


def add(name: str, amount: int, **attributes: str) -> None:
    """Count something, by one of adelta's metrics."""
    metrics = sys.modules.get(_METRICS)
    if metrics is not None:
        _add(metrics, name, amount, attributes)


def _add(metrics: Any, name: str, amount: int, attributes: dict[str, Any]) -> None:
    with suppress(Exception):
        provider = metrics.get_meter_provider()
        known, counter = _counters.get(name, (None, None))
        if known is not provider:
            counter = provider.get_meter(_SCOPE).create_counter(name, unit=_UNITS[name])
            _counters[name] = provider, counter
        counter.add(amount, _named(attributes))


def _started(trace: Any, name: str, attributes: dict[str, Any]) -> Any:
    """A span, or None where there can be none; what fails here is no failure of adelta's."""
    with suppress(Exception):
        provider = trace.get_tracer_provider()
        known, tracer = _tracers.get(_SCOPE, (None, None))
        if known is not provider:
            tracer = provider.get_tracer(_SCOPE)
            _tracers[_SCOPE] = provider, tracer
        return tracer.start_span(name, attributes=_named(attributes))
    return None


@contextmanager
def _current(trace: Any, name: str, attributes: dict[str, Any]) -> Iterator[Span]:
    found = _started(trace, name, attributes)
    if found is None:
        yield Span()
        return
    told = {"record_exception": False, "set_status_on_exception": False}  # which `_ended` does
    with trace.use_span(found, **told), _ended(trace, found) as span:
        yield span


@contextmanager
def _detached(trace: Any, name: str, attributes: dict[str, Any]) -> Iterator[Span]:
    found = _started(trace, name, attributes)
    if found is None:
        yield Span()
        return
    with _ended(trace, found) as span:
        yield span


@contextmanager
def _ended(trace: Any, found: Any) -> Iterator[Span]:
    """A span that ends with the block, and knows how."""
    try:
        yield Span(found)
    except Exception as error:
        with suppress(Exception):
            said = f"{type(error).__name__}: {without_secrets(str(error))}"
            found.set_status(trace.Status(trace.StatusCode.ERROR, said))
            found.set_attributes({"error.type": type(error).__name__})
        raise
    finally:
        with suppress(Exception):
            found.end()


def _named(attributes: dict[str, Any]) -> dict[str, Any]:
    return {
        f"adelta.{name}": without_secrets(value) if isinstance(value, str) else value
        for name, value in attributes.items()
        if value is not None
    }
