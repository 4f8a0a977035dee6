"""Scans files one by one, and prints for each how long it took and what was found.

    python scan_timing.py FOLDER > report.json

Run by tests in a separate process.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def main() -> None:
    from toolcrib.sources.scan import scan

    folder = Path(sys.argv[1])
    scan(__file__)  # what every scan loads is loaded
    before = set(sys.modules)
    files = {}
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".py"):
            continue
        began_s = time.process_time()
        found = scan(folder / name) if os.path.exists(folder / name) else None
        files[name] = {
            "cpu_s": time.process_time() - began_s,
            "tools": [tool.name for tool in found.tools] if found is not None else [],
            "codes": sorted({finding.code for finding in found.findings}) if found is not None else [],
        }
    whole = scan(folder)
    report = {
        "files": files,
        "modules": sorted(set(sys.modules) - before),
        "whole": [tool.name for tool in whole.tools],
        "unreadable": [finding.file for finding in whole.findings if finding.code == "unreadable-source"],
    }
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    main()
