"""A real browser for tests: the machine's own Chromium (Debian's package ``chromium``).

It is one for all tests of a module, which share its process and not its cookies. Where Chromium or
playwright is not installed, it is unavailable.
"""

from __future__ import annotations

import shutil
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tests.support.unavailable import unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Browser, Page

__all__ = ["Sheet", "new_sheet", "running_browser"]


@asynccontextmanager
async def running_browser() -> AsyncIterator[Browser]:
    """Chromium, until the block is left."""
    if find_spec("playwright") is None:
        unavailable("a browser is driven by playwright: pip install playwright")
    program = shutil.which("chromium")
    if program is None:
        unavailable("there is no Chromium here: apt-get install chromium")
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program)
        try:
            yield browser
        finally:
            await browser.close()


@dataclass
class Sheet:
    """A page in a browser window of its own, and what went wrong on it."""

    page: Page
    errors: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    async def open(self, address: str, heading: str | None = None) -> None:
        """Open an address; wait until a view with this heading has all that it shows."""
        await self.page.goto(address)
        if heading is not None:
            await self.page.get_by_role("heading", name=heading, exact=True, level=2).wait_for()
        await self.settled()

    async def settled(self) -> None:
        """Wait until nothing says that it is still to come."""
        await self.page.wait_for_function(
            "() => !/Loading…|Counting…/.test(document.getElementById('main').textContent)"
        )

    async def cells(self) -> list[list[str]]:
        """What the rows of its tables say."""
        rows = "() => [...document.querySelectorAll('main tbody tr')].map((row) => "
        cells = "[...row.cells].map((cell) => cell.innerText.trim()))"
        found: list[list[str]] = await self.page.evaluate(rows + cells)
        return found

    async def text(self) -> str:
        """What the page says."""
        return await self.page.locator("main").inner_text()


@asynccontextmanager
async def new_sheet(browser: Browser, **context: Any) -> AsyncIterator[Sheet]:
    """A new window; that nothing went wrong on it is asserted in the end."""
    window = await browser.new_context(**context)
    try:
        page = await window.new_page()
        page.set_default_timeout(20_000)
        sheet = Sheet(page)
        page.on("pageerror", lambda error: sheet.errors.append(str(error)))
        page.on(
            "console",
            lambda said: sheet.errors.append(said.text) if said.type == "error" else None,
        )
        page.on("request", lambda request: sheet.asked.append(request.url))
        yield sheet
        assert sheet.errors == []
    finally:
        await window.close()
