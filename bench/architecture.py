"""`python dev.py map`: rewrite the generated parts of docs/architecture.md.

The tree lists every module with the summary of its docstring; the traces list the functions of one real
HTTP call, without a policy and with one (`bench.trace`). Each part stands between two comments in the page;
only that text is replaced.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from bench import trace
from bench.wire.messages import MODERN

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "toolcrib"
PAGE = ROOT / "docs" / "architecture.md"


def render_tree(folder: Path = PACKAGE, depth: int = 0) -> str:
    """Return the modules below a folder, one per line, with the summary of each docstring."""
    lines = []
    for path in sorted(folder.iterdir(), key=lambda path: (path.is_dir(), path.name)):
        if path.suffix == ".py" and path.name != "__init__.py":
            lines.append(_line(path.name, path, depth))
        elif (path / "__init__.py").exists():
            lines.append(_line(f"{path.name}/", path / "__init__.py", depth))
            lines.append(render_tree(path, depth + 1))
    return "\n".join(lines)


def _line(name: str, path: Path, depth: int) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    summary = " ".join(docstring.partition("\n\n")[0].split())
    return f"{'  ' * depth + name:<28} {summary}".rstrip()


def replace_part(page: str, name: str, text: str) -> str:
    """Return the page with the text between the two comments of a part replaced."""
    pattern = rf"(<!-- {name}: .*? -->\n).*?(<!-- end of {name} -->)"
    replaced, count = re.subn(pattern, lambda found: f"{found[1]}{text}\n{found[2]}", page, flags=re.DOTALL)
    if count != 1:
        raise SystemExit(f"{PAGE.name} has no part '{name}'")
    return replaced


def main() -> None:
    page = PAGE.read_text()
    page = replace_part(page, "tree", f"\n```\n{render_tree()}\n```\n")
    for part, has_policy in (("trace", False), ("trace with a policy", True)):
        steps = trace.trace(MODERN, policy=has_policy)
        text = f"{trace.as_markdown(steps)}\n\n{trace.summary(MODERN, steps)}."
        page = replace_part(page, part, f"\n{text}\n")
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
