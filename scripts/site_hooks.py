"""What mkdocs.yml cannot say: pages from outside docs/, and links to files that are no page.

The page of all commands is made here as well, of their parser.

Pages are read in the repository, too, where a link to a program or to ARCHITECTURE.md is right. On
the site the former becomes the path of the file in the repository, the latter a link to its page.
"""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

from scripts import site_cli

log = logging.getLogger("mkdocs.hooks")

ROOT = Path(__file__).parents[1]
PROJECT = {  # of the repository → on the site
    "README.md": "overview.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
}
COMMANDS = "reference/cli.md"
_SOURCES = {site: source for source, site in PROJECT.items()}
_LINK = re.compile(r"\[(?P<text>[^\]\[]*)\]\((?P<target>[^)#\s:]+)(?P<anchor>#[^)\s]*)?\)")
_CODE = re.compile(r"(^ *```.*?^ *```$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the project's own pages, and that of the commands."""
    for source, site in PROJECT.items():
        files.append(File.generated(config, site, content=(ROOT / source).read_text("utf-8")))
    files.append(File.generated(config, COMMANDS, content=site_cli.page()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Mend links that are right in the repository, and not on the site."""
    here = page.file.src_uri
    source = _SOURCES.get(here, f"docs/{here}")

    def mended(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link["target"]))
        site = PROJECT.get(target, target.removeprefix("docs/"))
        if files.get_file_from_path(site) is not None:
            return f"[{link['text']}]({get_relative_url(site, here)}{link['anchor'] or ''})"
        if target.startswith("docs/") or not (ROOT / target).exists():
            log.warning("%s links to %s, which is not there", source, target)
            return link[0]
        return link["text"] if link["text"] in target else f"{link['text']} (`{target}`)"

    parts = _CODE.split(markdown)
    return "".join(
        part if index % 2 else _LINK.sub(mended, part) for index, part in enumerate(parts)
    )
