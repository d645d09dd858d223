"""A form reads of many footers what the shape that it is made of reads of each, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adelta.parquet.footer.footer_form import FooterForm
from tests.parquet.test_footer_shape import NUMBERS, SCHEMA, shape_of, table, written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.parquet.footer.footer_shape import FooterShape


def form_of(shape: FooterShape, footer: bytes) -> FooterForm:
    patterns = shape.patterns_of(footer)
    assert patterns is not None
    form = FooterForm(patterns)
    assert form.fits(footer)
    return form


def by_form(form: FooterForm, footers: Sequence[bytes]) -> dict[int, Any]:
    """What the form says of each footer that it reads, as a shape would say it."""
    leaves = len(form._chunks)
    found = form.read(footers, range(leaves))
    if found is None:
        return {}
    places, (rows, chunks) = found
    said: dict[int, Any] = {}
    for nth, place in enumerate(places):
        own = (
            None
            if each is None
            else tuple(None if column is None else column[nth] for column in each)
            for each in chunks
        )
        said[place] = (rows[nth], (tuple(own),))
    return said


def by_shape(shape: FooterShape, footer: bytes) -> Any:
    facts = shape.read(footer)
    return None if facts is None else (facts.num_rows, facts.groups)


@settings(max_examples=25)
@given(st.lists(NUMBERS, min_size=1, max_size=6), st.booleans())
def test_a_form_says_of_other_footers_what_the_shape_says_or_nothing(
    several: list[list[int | None]], as_numbers: bool
) -> None:
    options = {"store_decimal_as_integer": as_numbers}
    footers = [written(table(numbers or [None]), **options) for numbers in several]
    shape = shape_of(footers[0])
    said = by_form(form_of(shape, footers[0]), footers)
    assert 0 in said
    for place, found in said.items():
        assert found == by_shape(shape, footers[place])


@pytest.mark.parametrize(
    "options",
    [{}, {"use_dictionary": False}, {"write_page_index": True}, {"write_statistics": False}],
    ids=str,
)
def test_footers_of_one_writer_with_other_numbers_are_read_together(
    options: dict[str, Any],
) -> None:
    footers = [written(table(range(at, at + 90)), **options) for at in (5, 300, 100_000, 10**9)]
    shape = shape_of(footers[0])
    said = by_form(form_of(shape, footers[0]), footers)
    assert [said[place] for place in range(4)] == [by_shape(shape, each) for each in footers]


def test_texts_that_look_like_what_follows_them_are_read_whole_or_not_at_all() -> None:
    texts = ["a", "\x18\x01a\x16", "\x16\x00\x18\x01", "\x18\x01b\x00", "", "\x00" * 20, "b" * 300]
    footers = [written(pa.table({"text": [text], "other": [text]})) for text in texts]
    shape = shape_of(footers[0])
    form = form_of(shape, footers[0])
    together = by_form(form, footers)
    for place, footer in enumerate(footers):
        alone = by_form(form, [footer])
        for found in (alone.get(0), together.get(place)):
            assert found in (None, by_shape(shape, footer))
    assert len(by_form(form, [footers[0], footers[4], footers[6]])) == 3


def test_a_damaged_footer_that_a_form_reads_is_one_that_the_shape_reads_alike() -> None:
    schema = pa.schema([SCHEMA.field(name) for name in ("long", "cheap", "text", "many")])
    footer = written(table([1, 2, None, 70_000], schema))
    shape = shape_of(footer)
    form = form_of(shape, footer)
    read = 0
    for at in range(len(footer) - 8):
        for bit in (1, 2, 0x40, 0x80):
            damaged = bytearray(footer)
            damaged[at] ^= bit
            found = by_form(form, [bytes(damaged)]).get(0)
            if found is not None:
                read += 1
                assert found == by_shape(shape, bytes(damaged))
    assert read > 100
    assert not any(form.fits(footer[:end]) for end in range(len(footer) - 8))


def test_a_footer_of_several_row_groups_has_no_form() -> None:
    footer = written(table(range(10)), row_group_size=4)
    assert shape_of(footer).patterns_of(footer) is None
    assert shape_of(footer).patterns_of(footer[:-20]) is None
