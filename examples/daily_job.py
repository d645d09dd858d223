"""A day's load that may be run again at any time: by hand, by a scheduler's retry, by a backfill.

    python examples/daily_job.py sales.csv s3://lake/sales 2026-11-24

It has the form of a task that a scheduler such as Airflow calls with its logical date. The day's
rows are replaced as a whole (`replace_where`), so that whoever dies in between has left either the
day before or the day after, never a part. The file's time of change goes into the table with them
(`txn`): a run over the same file, or an older one, finds its work done. Of two runs at once one
meets a conflict, and `retry` does its work again.
"""

from __future__ import annotations

import argparse
import asyncio
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

import adelta

SCHEMA = pa.schema(
    {"day": pa.date32(), "shop": pa.string(), "amount": pa.decimal128(12, 2)},
)


def extract(source: Path, day: date) -> pa.Table:
    """The rows of `day`, of a CSV file that has the columns of `SCHEMA`."""
    types = {field.name: field.type for field in SCHEMA}
    rows = csv.read_csv(source, convert_options=csv.ConvertOptions(column_types=types))
    return rows.select(SCHEMA.names).filter(pc.equal(rows["day"], pa.scalar(day)))


async def run(source: Path, uri: str, day: date) -> adelta.WriteMetrics:
    """Make the rows of `day` in `source` the table's rows of that day."""
    await adelta.create_table(uri, SCHEMA, partition_by=["day"], mode="ignore")
    rows, changed = extract(source, day), source.stat().st_mtime_ns
    return await adelta.retry(
        lambda: adelta.write_table(
            uri,
            rows,
            mode="overwrite",
            replace_where=f"day = DATE '{day.isoformat()}'",
            txn=(f"sales-{day.isoformat()}", changed),
            user_metadata=f"{source.name}, {day.isoformat()}",
        )
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("uri")
    parser.add_argument("day", type=date.fromisoformat)
    done = asyncio.run(run(**vars(parser.parse_args())))
    print("done before" if done.skipped else f"version {done.version}: {done.num_output_rows} rows")
