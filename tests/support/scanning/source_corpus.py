"""Writes packages of twelve files that import each other: a server, its tools, and what these use.

    python source_corpus.py FOLDER        scans it, and prints the tools and the peak memory in MB

Run by tests in a separate process.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

PACKAGE = 12
"""Files of a package. It has as many tools."""
_SERVER = "import json\nfrom mcp.server.fastmcp import FastMCP\n\nmcp = FastMCP('server{p}')\n"
_TOOLS = """
import httpx
from .server import mcp
from .records_{k} import Record0, Record1, Record2, Record3
from pack{other}.records_{k} import Record0 as Other

"""
_TOOL = '''
@mcp.tool()
async def find_{k}_{i}(number: int, words: list[str]) -> str:
    """Find record {i} of kind {k}.

    Args:
        number: The number of the record
        words: What to look for
    """
    return Record{i}(number, words, {{"kind": "{k}"}}).summary()

'''
_RECORDS = (
    "import json\nimport logging\nimport httpx\nfrom pack{other}.records_{k} import Record0 as Other\n\n"
)
_RECORD = '''
class Record{i}:
    """A record that the tools of this package return."""

    def __init__(self, number: int, words: list[str], facts: dict[str, object]) -> None:
        self.number = number
        self.words = [word.strip() for word in words if word]
        self.facts = {{key: value for key, value in facts.items() if value is not None}}

    def summary(self, limit: int = 20, *, loud: bool = False) -> str:
        shown = ", ".join(sorted(self.words)[:limit])
        if loud:
            shown = shown.upper() + "!"
        for key, value in self.facts.items():
            shown += f"; {{key}}={{value!r}}"
        return f"{{self.number}}: {{shown}}"

    async def load(self, client, url: str, retries: int = 3) -> dict[str, object]:
        for attempt in range(retries):
            answer = await client.get(url, params={{"number": self.number, "attempt": attempt}})
            if answer.is_success:
                return {{"ok": True, "items": [item["name"] for item in answer.json()["items"]]}}
        return {{"ok": False, "items": []}}

'''


def write(folder: Path, files: int) -> None:
    """Write so many files."""
    packages = files // PACKAGE
    for p in range(packages):
        here, other = folder / f"pack{p}", (p * 7 + 3) % packages
        here.mkdir(parents=True)
        (here / "__init__.py").write_text("")
        (here / "server.py").write_text(_SERVER.format(p=p))
        for k in range(3):
            tools = "".join(_TOOL.format(k=k, i=i) for i in range(4))
            (here / f"tools_{k}.py").write_text(_TOOLS.format(k=k, other=other) + tools)
        for k in range(7):
            records = "".join(_RECORD.format(i=i) for i in range(8))
            (here / f"records_{k}.py").write_text(_RECORDS.format(k=(k + 1) % 7, other=other) + records)


def main() -> None:
    from toolcrib.sources.scan import scan

    found = scan(sys.argv[1])
    status = Path("/proc/self/status").read_text()  # ru_maxrss would count the process that started this one
    peak = int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) // 1024  # type: ignore[index]
    json.dump({"tools": len(found.tools), "findings": len(found.findings), "peak_mb": peak}, sys.stdout)


if __name__ == "__main__":
    main()
