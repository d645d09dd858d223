"""Which types new columns can have."""

from __future__ import annotations

import pyarrow as pa
import pytest

import adelta.sync
from adelta.errors import SchemaMismatchError
from adelta.kernel.schema import types as t
from adelta.kernel.schema.storable import check_storable

STORABLE = (
    t.LONG,
    t.VOID,
    t.VARIANT,
    t.TIMESTAMP_NTZ,
    t.DecimalType(38, 10),
    t.PrimitiveType("geometry(OGC:CRS84)"),
    t.ArrayType(t.MapType(t.STRING, t.StructType((t.StructField("x", t.DATE),)))),
)
INTERVAL = t.PrimitiveType("interval year to month")


def test_types_of_the_protocol_can_be_stored():
    check_storable(t.StructType(tuple(t.StructField(f"c{i}", s) for i, s in enumerate(STORABLE))))


@pytest.mark.parametrize(
    ("data_type", "path"),
    [
        (INTERVAL, "c"),
        (t.PrimitiveType("string collate UTF8_LCASE"), "c"),
        (t.ArrayType(INTERVAL), "c.element"),
        (t.MapType(t.STRING, INTERVAL), "c.value"),
        (t.MapType(INTERVAL, t.STRING), "c.key"),
        (t.ArrayType(t.StructType((t.StructField("x", INTERVAL),))), "c.element.x"),
    ],
)
def test_others_are_refused_by_their_place(data_type, path):
    schema = t.StructType((t.StructField("id", t.LONG), t.StructField("c", data_type)))
    with pytest.raises(SchemaMismatchError, match=rf"column '{path}' is of type"):
        check_storable(schema)


def test_no_way_leads_them_into_a_table(tmp_path):
    path, schema = str(tmp_path / "t"), t.StructType((t.StructField("i", INTERVAL),))
    with pytest.raises(SchemaMismatchError, match="Delta tables do not have"):
        adelta.sync.create_table(path, schema)
    adelta.sync.write_table(path, pa.table({"id": [1]}))
    with pytest.raises(SchemaMismatchError, match="Delta tables do not have"):
        adelta.sync.add_columns(path, schema)
    with pytest.raises(SchemaMismatchError, match="Delta tables do not have"):
        adelta.sync.replace_table(path, schema)
    assert len(adelta.sync.history(path)) == 1
