"""Hooks of MkDocs: the reference is made from the code, and pages for users begin with the command that
installs toolcrib, from `docs/install.md`.

A page that needs an extra names it in its front matter: `install: auth`.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from bench import reference

INSTALL = Path(__file__).resolve().parents[1] / "docs" / "install.md"
_COMMAND = re.compile(r'^```sh title="install"\n(pip install (\S+))\n```$', re.MULTILINE)
_WITHOUT = re.compile(
    r"(?:install|concepts|faq|architecture|testing|releasing|requirements"
    r"|rough-edges|changes|how-to/index|decisions/.*|reference/.*)\.md"
)
"""Overviews, reference and internals: nothing on them is typed."""


def install_command(extra: str | None = None) -> str:
    """Return the command that installs toolcrib today, with an extra."""
    found = _COMMAND.search(INSTALL.read_text())
    if found is None:
        raise ValueError('docs/install.md has no block with the title "install"')
    return f"pip install '{found[2]}[{extra}]'" if extra else found[1]


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the reference."""
    for name in reference.PAGES:
        page = File.generated(config, f"reference/{name}", content=reference.render(name))
        files.append(page)
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    """Put the command below the title of a page."""
    name = page.file.src_uri
    if _WITHOUT.fullmatch(name):
        return markdown
    link = posixpath.relpath("install.md", posixpath.dirname(name) or ".")
    title, rest = markdown.split("\n", 1)
    command = install_command(page.meta.get("install"))
    return f"{title}\n\n[Install]({link}): `{command}`\n{rest}"
