"""The page in Chromium: every view, hostile tables, colours, the keyboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pyarrow as pa
import pytest

import adelta
from adelta.serving.listening import Address
from adelta.ui.server import running_ui
from adelta.ui.settings import UiSettings
from tests.support.browser import Sheet, new_sheet, running_browser

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from playwright.async_api import Browser

    from adelta.ui.server import RunningUi

NASTY = {
    "markup": "<img src=x onerror=\"document.title='owned'\"><script>alert(1)</script></b>",
    "right to left": "\u202egnp.exe \u05e9\u05dc\u05d5\u05dd",
    "long": "x" * 5000,
    "controls": "a\x00b\x1b[31m\x7f",
}


@pytest.fixture(scope="module")
async def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables: trips, with all that the views show; nasty, whose names and values are hostile."""
    folder = tmp_path_factory.mktemp("lake")
    trips = str(folder / "trips")
    properties = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
    for number in range(3):
        cities = pa.array(["Bern", "Bern", "Oslo"])
        rows = pa.table({"city": cities, "km": pa.array([10 * number + n for n in (0, 1, 5)])})
        await adelta.write_table(
            trips,
            rows,
            **({"partition_by": ["city"], "properties": properties} if number == 0 else {}),
        )
    await adelta.delete(trips, "km = 10")
    await adelta.add_columns(trips, pa.schema({"note": pa.string()}))
    await adelta.checkpoint(trips)
    nasty = str(folder / "nasty")
    markup = NASTY["markup"]
    schema = pa.schema({name: pa.string() for name in ("plain", markup, *list(NASTY)[1:])})
    made = {"delta.columnMapping.mode": "name"}
    await adelta.create_table(
        nasty, schema, properties=made, name=markup, description=NASTY["right to left"]
    )
    row = dict(zip(schema.names, [*NASTY.values(), None], strict=True))
    async with (
        adelta.open_table(nasty) as table,
        table.transaction(
            "<b>WRITE</b>", parameters={markup: markup}, user_metadata=NASTY["right to left"]
        ) as tx,
    ):
        await tx.append(pa.Table.from_pylist([row], schema))
    return folder


@pytest.fixture(scope="module")
async def ui(lake: Path) -> AsyncIterator[RunningUi]:
    settings = UiSettings(
        (str(lake / "trips"), str(lake / "nasty")), address=Address("127.0.0.1", 0)
    )
    async with running_ui(settings) as ui:
        yield ui


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with running_browser() as browser:
        yield browser


@pytest.fixture
async def sheet(browser: Browser) -> AsyncIterator[Sheet]:
    async with new_sheet(browser) as sheet:
        yield sheet


async def test_the_overview_says_what_the_table_is(ui: RunningUi, sheet: Sheet, lake: Path) -> None:
    await sheet.open(ui.address, "Overview")
    text = await sheet.text()
    for expected in (
        (lake / "trips").as_uri(),
        "partitioned by",
        "delta.enableChangeDataFeed",
        "deletionVectors",
        "8\nrows",
        "6\nfiles",
    ):
        assert expected in text
    assert all(url.startswith(ui.endpoint) for url in sheet.asked)
    await sheet.open(f"{ui.endpoint}/#/0/overview?version=0", "Overview")
    assert "3\nrows" in await sheet.text()


async def test_the_history_says_what_each_commit_did(ui: RunningUi, sheet: Sheet) -> None:
    await sheet.open(f"{ui.endpoint}/#/0/history", "History")
    rows = sheet.page.locator("tbody tr")
    said = await sheet.cells()
    assert [int(cells[0]) for cells in said] == [4, 3, 2, 1, 0]
    assert [cells[2] for cells in said] == [
        "ADD COLUMNS",
        "DELETE",
        "WRITE",
        "WRITE",
        "WRITE",
    ]
    assert said[0][5] == "metadata"
    assert said[1][3].startswith("1 (")
    assert "1 files with deletion vectors" in said[1][5]
    assert said[2][3].startswith("2 (")
    assert said[2][4].startswith("0 (")
    await rows.nth(1).locator("summary").press("Enter")
    assert "predicate" in await rows.nth(1).inner_text()
    await sheet.open(f"{ui.endpoint}/#/0/history?before=2", "History")
    assert await rows.count() == 2
    await rows.first.get_by_role("link").click()
    await sheet.page.get_by_role("heading", name="Overview", exact=True).wait_for()
    assert sheet.page.url.endswith("#/0/overview?version=1")


async def test_the_log_is_drawn_and_read_out_by_the_arrow_keys(ui: RunningUi, sheet: Sheet) -> None:
    await sheet.open(f"{ui.endpoint}/#/0/log", "Log")
    assert "1\nclassic checkpoint" in await sheet.text()
    commits, lanes = await sheet.page.locator("svg.chart").all()
    assert await commits.locator("rect").count() == 5
    assert await lanes.locator("rect").count() == 1
    await commits.press("End")
    readout = sheet.page.locator("figure .readout").first
    assert (await readout.inner_text()).startswith("version 4: 1 commits")
    await commits.press("ArrowLeft")
    assert (await readout.inner_text()).startswith("version 3: 1 commits")


async def test_commits_appear_as_they_are_made(ui: RunningUi, sheet: Sheet, lake: Path) -> None:
    live = str(lake / "nasty")
    await sheet.open(f"{ui.endpoint}/#/1/live", "Live")
    await sheet.page.get_by_text("Waiting for what comes after version 1.").wait_for()
    await adelta.set_properties(live, {"delta.appendOnly": "false"})
    await sheet.page.get_by_text("The latest version is 2.").wait_for()
    assert "SET TBLPROPERTIES" in await sheet.page.locator("tbody tr").first.inner_text()


async def test_files_are_shown_by_partition_and_by_what_a_predicate_reads(
    ui: RunningUi, sheet: Sheet
) -> None:
    await sheet.open(f"{ui.endpoint}/#/0/files", "Files")
    rows = await sheet.cells()
    assert sorted((row[0], row[1], row[3]) for row in rows) == [
        ("Bern", "3", "33.3 %"),
        ("Oslo", "3", "0.0 %"),
    ]
    await sheet.page.get_by_label("Which files").fill("km > 20")
    await sheet.page.keyboard.press("Enter")
    await sheet.page.get_by_text("of 6 files may have such rows").wait_for()
    assert "2\nof 6 files" in await sheet.text()


async def test_the_layout_shows_where_the_values_of_a_column_lie(
    ui: RunningUi, sheet: Sheet
) -> None:
    await sheet.open(f"{ui.endpoint}/#/0/layout", "Layout")
    assert await sheet.page.get_by_label("Column").input_value() == "city"
    assert "3\nfiles a value may be in, on average" in await sheet.text()
    await sheet.page.get_by_label("Column").select_option("km")
    await sheet.page.get_by_role("button", name="Show").click()
    await sheet.page.get_by_text("from 0 to 25").wait_for()
    assert "1\nfiles a value may be in, on average" in await sheet.text()
    depths, files = await sheet.page.locator("svg.chart").all()
    assert await depths.locator("rect").count() == 200
    assert await files.locator("rect").count() == 6
    await files.press("Home")
    assert (await sheet.page.locator("figure .readout").last.inner_text()).startswith(
        "0 to 1 in city="
    )


async def test_rows_of_any_version_are_shown_by_a_predicate(ui: RunningUi, sheet: Sheet) -> None:
    rows = sheet.page.locator("tbody tr")
    await sheet.open(f"{ui.endpoint}/#/0/rows?version=1", "Rows")
    assert await rows.count() == 6
    await sheet.open(f"{ui.endpoint}/#/0/rows", "Rows")
    await sheet.page.get_by_label("Rows for which").fill("km >= 15 and city = 'Bern'")
    await sheet.page.get_by_label("Columns").fill("km, note")
    await sheet.page.get_by_label("Rows (100").fill("1")
    await sheet.page.keyboard.press("Enter")
    await sheet.page.get_by_text("These are the first 1 rows.").wait_for()
    assert await sheet.cells() == [["20", "null"]]
    await sheet.open(f"{ui.endpoint}/#/0/rows?where=nope+%3D+1", "Rows")
    assert "nope" in await sheet.page.get_by_role("alert").inner_text()
    assert len(sheet.errors) == 1
    sheet.errors.clear()


async def test_the_change_feed_is_shown(ui: RunningUi, sheet: Sheet) -> None:
    await sheet.open(f"{ui.endpoint}/#/0/changes?since=2&until=3&columns=km", "Changes")
    changes = sorted((row[0], int(row[3])) for row in await sheet.cells())
    assert changes == [("delete", 10), ("insert", 20), ("insert", 21), ("insert", 25)]
    await sheet.open(f"{ui.endpoint}/#/1/changes", "Changes")
    assert "delta.enableChangeDataFeed" in await sheet.page.get_by_role("alert").inner_text()
    sheet.errors.clear()


async def test_the_schema_is_shown_over_time(ui: RunningUi, sheet: Sheet) -> None:
    await sheet.open(f"{ui.endpoint}/#/0/schema", "Schema")
    newest, first = [await row.inner_text() for row in await sheet.page.locator("tbody tr").all()]
    assert "column note added: string" in newest
    for expected in (
        "column km added: long",
        "partitioned by city",
        "feature deletionVectors added",
    ):
        assert expected in first


async def test_hostile_names_and_values_are_shown_as_text(ui: RunningUi, sheet: Sheet) -> None:
    narrow = "() => document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    for view in ("overview", "history", "log", "files", "layout", "schema", "rows", "live"):
        await sheet.open(f"{ui.endpoint}/#/1/{view}", view.capitalize())
        for summary in await sheet.page.locator("main summary").all():
            await summary.click()
        if view in ("overview", "history", "schema", "rows"):
            assert NASTY["markup"] in await sheet.text()
        made = sheet.page.locator("main img, main script, main b, main iframe")
        assert await made.count() == 0
        assert await sheet.page.title() == f"{view.capitalize()} · adelta"
        assert await sheet.page.evaluate(narrow)
    assert all(url.startswith(ui.endpoint) for url in sheet.asked)


async def test_markup_that_a_script_would_insert_is_refused_by_the_policy(
    ui: RunningUi, sheet: Sheet
) -> None:
    await sheet.open(ui.address, "Overview")
    refused = await sheet.page.evaluate(
        "() => { try { document.body.innerHTML = '<b>x</b>'; } catch (e) { return e.name; } }"
    )
    assert refused == "TypeError"
    assert all("Trusted" in error for error in sheet.errors)
    sheet.errors.clear()


def luminance(colour: str) -> float:
    """Of a colour as browsers write it, relative to white (WCAG 2)."""
    parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


async def test_light_and_dark_follow_the_system_and_the_button_and_can_be_read(
    ui: RunningUi, browser: Browser
) -> None:
    colours = (
        "(selector) => { const s = getComputedStyle(document.querySelector(selector));"
        " return [s.color, s.backgroundColor]; }"
    )

    async def paper(sheet: Sheet) -> float:
        ink, paper = map(luminance, await sheet.page.evaluate(colours, "body"))
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) > 7
        soft = luminance((await sheet.page.evaluate(colours, "th"))[0])
        assert (max(soft, paper) + 0.05) / (min(soft, paper) + 0.05) > 4.5
        return paper

    async with new_sheet(browser, color_scheme="dark") as sheet:
        await sheet.open(ui.address, "Overview")
        assert await paper(sheet) < 0.1
        for theme, is_light in (("light", True), ("dark", False), ("auto", False)):
            await sheet.page.keyboard.press("t")
            await sheet.page.get_by_role("button", name=f"Theme: {theme}").wait_for()
            assert (await paper(sheet) > 0.9) is is_light
        await sheet.page.keyboard.press("t")
        await sheet.page.reload()
        await sheet.page.get_by_role("button", name="Theme: light").wait_for()
        await sheet.page.locator("th").first.wait_for()
        assert await paper(sheet) > 0.9
    async with new_sheet(browser, color_scheme="light") as sheet:
        await sheet.open(ui.address, "Overview")
        assert await paper(sheet) > 0.9


async def test_the_keyboard_alone_reaches_everything(ui: RunningUi, sheet: Sheet) -> None:
    await sheet.open(ui.address, "Overview")
    keys, page = sheet.page.keyboard, sheet.page
    await keys.press("Tab")
    assert await page.evaluate("document.activeElement.id") == "skip"
    await keys.press("Enter")
    assert await page.evaluate("document.activeElement.id") == "main"
    await keys.press("2")
    await page.get_by_role("heading", name="History", exact=True).wait_for()
    await page.get_by_role("link", name="History", exact=True).focus()
    assert await page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert await page.locator("nav a[aria-current=page]").inner_text() == "History"
    await keys.press("?")
    assert "through a drawing" in await page.get_by_role("dialog", name="Keys").inner_text()
    await keys.press("Escape")
    assert await page.get_by_role("dialog").count() == 0
    await keys.press("1")
    await page.get_by_role("heading", name="Overview", exact=True).wait_for()
    await sheet.settled()
    await keys.press("/")
    await keys.type("2")  # which is a character here, and no view
    await keys.press("Enter")
    await page.wait_for_url("**/#/0/overview?version=2")
    reached = set()
    for _ in range(25):
        await keys.press("Tab")
        reached.add(await page.evaluate("document.activeElement.tagName.toLowerCase()"))
    assert {"a", "button", "input", "select", "svg"} <= reached


async def test_a_mistake_in_the_address_is_said_on_the_page(ui: RunningUi, sheet: Sheet) -> None:
    for query, expected in (("version=99", "99"), ("version=x", "whole number")):
        await sheet.open(f"{ui.endpoint}/#/0/overview?{query}", "Overview")
        alert = sheet.page.get_by_role("alert").first
        await alert.wait_for()
        assert expected in await alert.inner_text()
    assert all("status of 40" in error for error in sheet.errors)
    sheet.errors.clear()


async def test_a_token_is_taken_out_of_the_address_or_asked_for(
    lake: Path, browser: Browser
) -> None:
    secret = "a-token-of-some-length"
    settings = UiSettings((str(lake / "trips"),), address=Address("127.0.0.1", 0), token=secret)
    async with running_ui(settings) as ui:
        async with new_sheet(browser) as sheet:
            await sheet.open(ui.address, "Overview")
            assert sheet.page.url == f"{ui.endpoint}/"
            assert not any(secret in url for url in sheet.asked)
            assert await sheet.page.evaluate("document.cookie") == ""
            await sheet.page.reload()
            await sheet.page.get_by_role("heading", name="Overview").wait_for()
        async with new_sheet(browser) as sheet:
            await sheet.open(ui.endpoint, "Token")
            await sheet.page.get_by_label("The token").fill("something else")
            await sheet.page.keyboard.press("Enter")
            await sheet.page.get_by_text("wrong").wait_for()
            await sheet.page.get_by_label("The token").fill(secret)
            await sheet.page.keyboard.press("Enter")
            await sheet.page.get_by_role("heading", name="Overview").wait_for()
            assert all("status of 401" in error for error in sheet.errors)
            sheet.errors.clear()
            with anyio.fail_after(60):
                await sheet.settled()
