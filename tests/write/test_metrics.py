"""What the metrics of a commit count."""

from __future__ import annotations

import pytest

from adelta.kernel.actions.file_actions import AddFile
from adelta.write.metrics import added_metrics


@pytest.mark.parametrize(
    ("stats", "rows"),
    [
        (None, 0),
        ('{"numRecords":3}', 3),
        ('{"numRecords":3,"minValues":{"a":1}}', 3),
        ('{"minValues":{"a":1},"numRecords":3}', 3),
        ('{"numRecords":3,"numRecords":4}', 4),
        ('{"numRecords":3.5}', 0),
        ('{"numRecords":"3"}', 0),
        ('{"numRecords":-3}', 0),
        ("{}", 0),
        ("no JSON", 0),
    ],
)
def test_rows_are_those_that_statistics_count(stats: str | None, rows: int) -> None:
    files = [AddFile(name, {}, 10, 1, stats=stats) for name in "ab"]
    assert added_metrics(files) == {
        "numFiles": 2,
        "numOutputBytes": 20,
        "numOutputRows": 2 * rows,
    }
