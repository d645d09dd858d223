"""A table with columns of many types, and the shapes that a file of it may have."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

ROWS = 3000
N = range(ROWS)
TABLE = pa.table(
    {
        "id": pa.array(N, pa.int64()),
        "small": pa.array([n % 7 for n in N], pa.int8()),
        "number": pa.array([n / 3 if n % 5 else None for n in N]),
        "flag": pa.array([n % 3 == 0 for n in N]),
        "text": pa.array([f"text {n * n}" if n % 11 else None for n in N]),
        "few": pa.array([("de", "fr", "it")[n % 3] for n in N]),
        "bytes": pa.array([bytes([n % 256]) * (n % 40) for n in N]),
        "money": pa.array([Decimal(n * 37) / 100 for n in N], pa.decimal128(20, 2)),
        "day": pa.array([date.fromordinal(730_000 + n % 100) for n in N]),
        "at": pa.array(
            [datetime(2026, 1, 1 + n % 28, n % 24) for n in N], pa.timestamp("us", "UTC")
        ),
        "none": pa.nulls(ROWS, pa.string()),
        "list": pa.array([list(range(n % 4)) if n % 9 else None for n in N]),
        "map": pa.array([[("k", n)] for n in N], pa.map_(pa.string(), pa.int32())),
        "struct": pa.array([{"a": n, "b": {"c": f"c{n % 50}"}} if n % 13 else None for n in N]),
        "dotted.name": pa.array(N, pa.int16()),
        "large": pa.array([f"large {n % 100}" for n in N], pa.large_string()),
    }
)
READ = TABLE.set_column(TABLE.num_columns - 1, "large", TABLE["large"].cast(pa.string()))
PAGES = {"data_page_size": 2000, "write_batch_size": 100}
SHAPES: dict[str, dict[str, Any]] = {
    "plainly": {},
    "in small pages": PAGES,
    "in small row groups": {"row_group_size": 700, **PAGES},
    "without dictionaries": {"use_dictionary": False, **PAGES},
    "in pages of the second version": {"data_page_version": "2.0", **PAGES},
    "with checksums of pages": {"write_page_checksum": True, **PAGES},
    "without statistics": {"write_statistics": False, **PAGES},
    "with a page index": {"write_page_index": True, **PAGES},
    "without an Arrow schema": {"store_schema": False, **PAGES},
}
