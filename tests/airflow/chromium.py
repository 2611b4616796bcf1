"""A browser for tests: Debian's Chromium, headless; ``apt install chromium``, or name one in
``CHROMIUM``."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None,
    reason="no Chromium: apt install chromium, or name one in CHROMIUM; the pages are untested",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Runs until it is left."""
    with sync_playwright() as playwright:
        # In a container there is no user namespace for its sandbox, and it sees only our own pages.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()
