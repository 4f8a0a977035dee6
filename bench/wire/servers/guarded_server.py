"""toolcrib with a policy: an API key, roles and rules, limits on rate and number, and an audit log.

guarded_server key FOLDER          make a key for `bench`, print it
guarded_server http PORT FOLDER    serve
"""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path
from typing import Any

from bench.wire.servers import HOST, add, echo
from toolcrib import MCPServer
from toolcrib.policy import Audit, Auth, Limit, Policy, Rule
from toolcrib.policy.auth.api_keys import KeyFile, create_key
from toolcrib.state.base import run_now

KEYS = "keys.json"


def make_policy(home: Path) -> Policy:
    """What a careful owner would write: several rules that have to be gone through, none that refuses."""
    return Policy(
        roles={"reader": ["key:bench"], "writer": ["key:somebody"], "admin": ["key:ops-*"]},
        rules=[
            Rule(allow=["add", "echo"], who=["role:reader"]),
            Rule(allow=["*"], who=["role:admin"]),
            Rule(deny=["add"], who=["role:reader"], when={"a": {"above": 1_000_000_000}}),
            Rule(deny=["echo"], who=["role:writer"]),
        ],
        limits=[
            Limit(rate="500000/s", burst=1_000_000, per="principal"),
            Limit(concurrency=1000, per="tool"),
        ],
        auth=Auth(keys=home / KEYS),
        audit=Audit(home / f"audit-{secrets.token_hex(4)}.db"),
    )


def main() -> None:
    home = Path(sys.argv[-1])
    if sys.argv[1] == "key":
        print(json.dumps({"key": run_now(create_key(KeyFile(home / KEYS), "bench"))[0]}))
        return
    server: Any = MCPServer("bench", search="never", policy=make_policy(home))
    for function in (add, echo):
        server.add(function)
    server.run("http", host=HOST, port=int(sys.argv[2]))


if __name__ == "__main__":
    main()
