"""First contact: `python -m bench.contact LIBRARY FOLDER COUNT`.

Imports a library and a file of functions, registers them, lists them as a client would see them, and
prints when that was: a clock that the parent process reads too, and the CPU time since the start.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

from bench import functions, subjects


def main() -> None:
    name, folder, count = sys.argv[1:]
    subject = subjects.load(name)
    server = subject.new_server()
    add = subject.adder(server)
    for function in functions.load_module(Path(folder), int(count)):
        add(function)
    listed = [subject.to_wire(definition) for definition in asyncio.run(subject.definitions(server))]
    if len(listed) != int(count):
        raise RuntimeError(f"{len(listed)} of {count} tools are listed")
    json.dumps(listed)
    print(json.dumps({"at_s": time.monotonic(), "cpu_s": time.process_time()}))


if __name__ == "__main__":
    main()
