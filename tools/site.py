"""Hooks of MkDocs, for pages of the repository that are not in docs/: the README is the first page of the site."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent

PAGES = {
    "index.md": "README.md",
    "architecture.md": "ARCHITECTURE.md",
    "changelog.md": "CHANGELOG.md",
    "security.md": "SECURITY.md",
    "contributing.md": "CONTRIBUTING.md",
}
"""Pages of the site, and the files that they are."""


def on_files(files, config):
    """Adds the pages."""
    for page, source in PAGES.items():
        files.append(File.generated(config, page, content=for_site((ROOT / source).read_text(encoding="utf-8"))))
    return files


def on_page_markdown(markdown, page, config, files):
    """Links of docs/ to the files above it lead to their pages."""
    return for_site(markdown)


def for_site(text: str) -> str:
    """A page with its links as they hold on the site. What the site does not have is not linked."""
    for page, source in PAGES.items():
        text = re.sub(rf"\]\((?:\.\./)?{re.escape(source)}(#[^)]*)?\)", lambda found, page=page: f"]({page}{found[1] or ''})", text)
    text = re.sub(r'(\]\(|src="|srcset=")docs/', r"\1", text)
    return re.sub(r"\[([^\]]*)\]\((?:\.\./)*(?:bench/|deploy/|LICENSE-|tests/|crates/)[^)]*\)", r"\1", text)
