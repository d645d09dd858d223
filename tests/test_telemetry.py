"""What OpenTelemetry and the log are told, by the SDK's own exporters in memory."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import anyio
import pyarrow as pa
import pytest

import adelta
import adelta.sync
from adelta.errors import InvalidExpressionError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.importorskip("opentelemetry.sdk")
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

ROWS = pa.table({"n": [1, 2, 3]})


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield exporter
    provider.shutdown()


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemoryMetricReader]:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)
    yield reader
    provider.shutdown()


def figures(reader: InMemoryMetricReader) -> dict[tuple[str, ...], int]:
    data = reader.get_metrics_data()
    return {
        (metric.name, *point.attributes.values()): point.value
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }


async def raced(path: Path) -> None:
    """A commit that loses a race, and comes second."""
    async with adelta.open_table(path) as table, table.transaction() as tx:
        await tx.append(ROWS)
        # from another event loop: commits of one do not race
        await anyio.to_thread.run_sync(adelta.sync.write_table, path, ROWS)


async def test_operations_snapshots_scans_and_attempts_are_spans(
    tmp_path: Path, spans: InMemorySpanExporter
) -> None:
    path = tmp_path / "t"
    await adelta.write_table(path, ROWS)
    await adelta.delete(path, "n = 2")
    async with adelta.open_table(path) as table:
        await (await table.snapshot()).scan().to_arrow()
    found = {span.name: span for span in spans.get_finished_spans()}
    assert {"adelta.write_table", "adelta.delete", "adelta.snapshot", "adelta.scan"} <= set(found)
    deleted, attempt = found["adelta.delete"], found["adelta.commit_attempt"]
    assert deleted.attributes["adelta.version"] == 1
    assert deleted.attributes["adelta.table"] == str(path)
    assert attempt.attributes["adelta.outcome"] == "Committed"
    assert attempt.context.trace_id == deleted.context.trace_id
    assert dict(found["adelta.scan"].attributes) == {
        "adelta.table": path.as_uri(), "adelta.version": 1, "adelta.rows": 2,
    }  # fmt: skip


async def test_a_failure_is_the_status_of_its_span(
    tmp_path: Path, spans: InMemorySpanExporter
) -> None:
    await adelta.write_table(tmp_path / "t", ROWS)
    with pytest.raises(InvalidExpressionError):
        await adelta.delete(tmp_path / "t", "nope = 2")
    (failed,) = [span for span in spans.get_finished_spans() if span.name == "adelta.delete"]
    assert failed.status.status_code is trace.StatusCode.ERROR
    assert failed.attributes["error.type"] == "UnresolvedColumnError"


async def test_a_stream_that_is_left_ends_its_span_and_parts_with_no_context(
    tmp_path: Path, spans: InMemorySpanExporter
) -> None:
    await adelta.write_table(tmp_path / "t", ROWS)
    async with adelta.open_table(tmp_path / "t") as table:
        with trace.get_tracer_provider().get_tracer("mine").start_as_current_span("mine") as mine:
            batches = (await table.snapshot()).scan().batches()
            await anext(batches)
            assert trace.get_current_span() is mine
            await batches.aclose()
    found = {span.name: span for span in spans.get_finished_spans()}
    assert found["adelta.scan"].parent.span_id == found["mine"].context.span_id


async def test_requests_bytes_and_lost_races_are_metrics(
    tmp_path: Path, measured: InMemoryMetricReader
) -> None:
    path = tmp_path / "t"
    await adelta.write_table(path, ROWS)
    await raced(path)
    found = figures(measured)
    assert found["adelta.commit.lost_races",] == 1
    assert found["adelta.commit.attempts", "Lost"] == 1
    assert found["adelta.commit.attempts", "Committed"] == 3
    assert found["adelta.store.requests", "put"] >= 6
    assert found["adelta.store.io", "write"] > 1000
    assert found["adelta.store.io", "read"] > 100


async def test_a_listener_that_fails_fails_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(SpanProcessor):
        def on_start(self, *_: Any, **__: Any) -> None:
            raise ValueError("broken")

        def on_end(self, *_: Any) -> None:
            raise ValueError("broken")

    provider = TracerProvider()
    provider.add_span_processor(Broken())
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: None)
    assert (await adelta.write_table(tmp_path / "t", ROWS)).version == 0


async def test_the_log_tells_of_operations_attempts_and_what_won(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "adelta")
    path = tmp_path / "t"
    await adelta.write_table(path, ROWS)
    await raced(path)
    lines = [f"{record.name}: {record.getMessage()}" for record in caplog.records]
    for said in (
        f"adelta.operations: write_table {path}: done in ",
        f"adelta.transaction: {path.as_uri()}: version 1 is Lost in attempt 1, of 1 transactions",
        f"adelta.transaction: {path.as_uri()}: version 1 is another commit's, of operation 'WRITE'",
        f"adelta.transaction: {path.as_uri()}: version 2 is Committed in attempt 2",
        f"adelta.log: {path.as_uri()}: version 0 is made of the checkpoint of none",
    ):
        assert any(line.startswith(said) for line in lines), said


def test_adelta_imports_nothing_of_opentelemetry(tmp_path: Path) -> None:
    program = (
        "import sys, adelta.sync, pyarrow as pa\n"
        f"adelta.sync.write_table({str(tmp_path / 't')!r}, pa.table({{'n': [1]}}))\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
