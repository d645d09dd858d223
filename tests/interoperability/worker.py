"""One other engine, in a process of its own: ``python worker.py <engine>``.

It reads requests from its standard input and answers each on its standard output, as lines of JSON.
Rows that it has read go by a file of Arrow's. It knows nothing of adelta.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable


class Deltalake:
    def __init__(self) -> None:
        import deltalake

        self.version = deltalake.__version__
        self._engine = deltalake

    def read(self, root: str, version: int | None) -> Any:
        table = self._engine.DeltaTable(root, version=version)
        return self._engine.QueryBuilder().register("t", table).execute("select * from t")

    def changes(self, root: str) -> Any:
        return self._engine.DeltaTable(root).load_cdf(starting_version=0)

    def append(self, root: str, rows: pa.Table) -> None:
        self._engine.write_deltalake(root, rows, mode="append")


class Polars:
    def __init__(self) -> None:
        import polars

        self.version = polars.__version__
        self._engine = polars

    def read(self, root: str, version: int | None) -> Any:
        return self._engine.scan_delta(root, version=version).collect()

    def append(self, root: str, rows: pa.Table) -> None:
        frame: Any = self._engine.from_arrow(rows)
        frame.write_delta(root, mode="append")


class DuckDB:
    def __init__(self) -> None:
        import duckdb
        import duckdb_extension_delta

        self.version = duckdb.__version__
        (extension,) = Path(duckdb_extension_delta.__file__).parent.rglob("*.duckdb_extension")
        self._engine = duckdb.connect(config={"autoinstall_known_extensions": False})
        self._engine.execute(f"load '{extension}'")
        self._engine.execute("set timezone = 'UTC'")

    def read(self, root: str, version: int | None) -> Any:
        at = "" if version is None else f", version = {version}"
        return self._engine.execute(f"select * from delta_scan('{root}'{at})").arrow()

    def append(self, root: str, rows: pa.Table) -> None:
        self._engine.register("given", rows)
        self._engine.execute(f"attach '{root}' as target (type delta)")
        try:
            self._engine.execute("insert into target select * from given")
        finally:
            self._engine.execute("detach target")


class ClickHouse:
    def __init__(self) -> None:
        import chdb

        self.version = chdb.engine_version
        self._engine = chdb  # a session would see no files but those in its own folder

    def _rows(self, query: str, settings: str) -> Any:
        texts = "output_format_arrow_string_as_string = 0, session_timezone = 'UTC'"
        found = self._engine.query(f"{query} settings {texts}{settings}", "ArrowStream")
        return pa.ipc.open_stream(found.bytes()).read_all()

    def read(self, root: str, version: int | None) -> Any:
        at = "" if version is None else f", delta_lake_snapshot_version = {version}"
        return self._rows(f"select * from deltaLakeLocal('{root}')", at)

    def changes(self, root: str) -> Any:
        query = f"select * from deltaLakeLocal('{root}')"
        return self._rows(query, ", delta_lake_snapshot_start_version = 0")

    def append(self, root: str, rows: pa.Table) -> None:
        columns = ", ".join(rows.column_names)
        values = [repr(tuple(row.values())).replace("None", "null") for row in rows.to_pylist()]
        self._engine.query(
            f"insert into function deltaLakeLocal('{root}') ({columns}) "
            f"settings allow_experimental_delta_lake_writes = 1 values {', '.join(values)}"
        )


class Daft:
    def __init__(self) -> None:
        import daft

        self.version = daft.__version__
        self._engine = daft

    def read(self, root: str, version: int | None) -> Any:
        return self._engine.read_deltalake(root, version=version).to_arrow()

    def append(self, root: str, rows: pa.Table) -> None:
        self._engine.from_arrow(rows).write_deltalake(root, mode="append")


class Sail:
    def __init__(self) -> None:
        import pysail
        from pysail.spark import SparkConnectServer
        from pyspark.sql import SparkSession

        self.version = pysail.__version__
        self._server = SparkConnectServer("127.0.0.1", 0)
        self._server.start(background=True)
        _, port = self._server.listening_address
        self._engine = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
        self._engine.conf.set("spark.sql.session.timeZone", "UTC")

    def read(self, root: str, version: int | None) -> Any:
        reader = self._engine.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", str(version))
        return reader.load(root).toArrow()

    def append(self, root: str, rows: pa.Table) -> None:
        self._engine.createDataFrame(rows).write.format("delta").mode("append").save(root)


ENGINES: Final[dict[str, Callable[[], Any]]] = {
    "ClickHouse": ClickHouse,
    "DuckDB": DuckDB,
    "Sail": Sail,
    "daft": Daft,
    "deltalake": Deltalake,
    "polars": Polars,
}


def answer(engine: Any, request: dict[str, Any]) -> None:
    """Do what is asked."""
    root = request["root"]
    match request["what"]:
        case "append":
            schema = pa.schema([("id", pa.int64()), ("s", pa.string()), ("p", pa.string())])
            engine.append(root, pa.Table.from_pylist(request["rows"], schema=schema))
            return
        case "read":
            found = engine.read(root, request["version"])
        case "changes":
            found = engine.changes(root)
    rows = pa.table(found)
    with pa.OSFile(request["into"], "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)


def main() -> None:
    """Answer until there are no more requests."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what an engine prints is no answer
    engine = ENGINES[sys.argv[1]]()
    print(json.dumps({"version": engine.version}), file=answers, flush=True)
    for line in sys.stdin:
        said: dict[str, Any] = {}
        try:
            answer(engine, json.loads(line))
        except BaseException as error:  # a panic of Rust's is no Exception
            said = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(said), file=answers, flush=True)
    os._exit(0)  # threads of the engines may crash the interpreter at its end


if __name__ == "__main__":
    main()
