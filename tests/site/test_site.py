"""`make docs`: the site builds without a warning, links and their anchors included, and what it
shows comes from nowhere else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.site.documents import DOCS, ROOT

pytest.importorskip("mkdocs", reason="the dependency group docs is not installed: make install")
pytest.importorskip("mkdocstrings", reason="the dependency group docs is not installed")

LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "object": "data"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "built"
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # of the theme, about its successor
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert built.returncode == 0, built.stderr
    return folder


class Loading(HTMLParser):
    """What a browser loads with a page."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        address = given.get("href") if tag == "link" else given.get(LOADS.get(tag, ""))
        if address and given.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.append(address)


def pages(site: Path) -> Iterator[Path]:
    return site.rglob("*.html")


def test_every_page_is_there(site: Path) -> None:
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).with_suffix(".html")
        assert (site / name.with_name(name.name.replace("README", "index"))).exists(), page


def test_nothing_comes_from_elsewhere(site: Path) -> None:
    for page in pages(site):
        loading = Loading()
        loading.feed(page.read_text(encoding="utf-8"))
        assert loading.loaded
        assert [each for each in loading.loaded if re.match(r"(https?:)?//", each)] == [], page


def test_no_diagram_asks_the_theme_for_a_program_from_elsewhere(site: Path) -> None:
    for page in pages(site):
        assert 'class="mermaid"' not in page.read_text(encoding="utf-8"), page


def test_docstrings_are_read_as_markdown() -> None:
    pytest.importorskip("griffe")
    from scripts.site_docstrings import as_markdown

    assert as_markdown("See :class:`~engine.errors.ConfigError` in :mod:`engine.errors`.") == (
        "See ``ConfigError`` in ``engine.errors``."
    )
    assert as_markdown("Like this::\n\n    {}\n") == "Like this:\n\n    {}\n"
    table = "Has:\n\n====  =====\n``a``  of :meth:`b`\n====  =====\n\nMore."
    assert as_markdown(table) == (
        "Has:\n\n```text\n====  =====\na  of b\n====  =====\n```\n\nMore."
    )
