"""`toolcrib serve --workers 2` with a policy: one record of all calls, one count of all calls, one door."""

from __future__ import annotations

import concurrent.futures
from collections import Counter
from pathlib import Path
from typing import Any

from tests.support.records.key_files import Keys
from tests.support.servers.serve_process import Serving
from toolcrib.policy.audit import open_log

TOOLS = '''
import os
from toolcrib import tool

@tool
def where() -> int:
    """Tell which process this is."""
    return os.getpid()

@tool
def free() -> int:
    """The same, without a limit."""
    return os.getpid()

@tool(destructive=True)
def wipe(what: str) -> str:
    """Wipe something."""
    return f"{what} wiped"
'''
SETTINGS = """
[server]
targets = ["tools.py"]
[http]
workers = 2
[auth]
keys = "keys.json"
[[limits]]
tools = ["where"]
daily = 20
[[rules]]
confirm = ["wipe"]
[audit]
file = "audit.db"
"""
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
}


def call(serving: Serving, key: str | None, name: str, **params: Any) -> Any:
    """The result of a call on a connection of its own, which any worker may take."""
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": name, "arguments": {}, **params, "_meta": META},
    }
    headers = {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/call", "mcp_name": name}
    if key is not None:
        headers["x_api_key"] = key
    status, answer = serving.post(message, accept="application/json, text/event-stream", **headers)
    assert status == 200, answer
    return answer["result"]


def test_workers_count_record_and_confirm_as_one(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "toolcrib.toml").write_text(SETTINGS)
    key, _ = Keys(tmp_path / "keys.json").create("ana")
    with Serving("toolcrib.toml", cwd=tmp_path) as serving:
        assert serving.info["workers"] == 2
        assert serving.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})[0] == 401
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            results = list(pool.map(lambda _: call(serving, key, "where"), range(40)))
            others = list(pool.map(lambda _: call(serving, key, "free"), range(40)))
        let_in = [item for item in results if not item["isError"]]
        assert len(let_in) == 20  # of all workers together
        refused = [item["_meta"]["toolcrib/refusal"]["code"] for item in results if item["isError"]]
        assert refused == ["throttled"] * 20
        seen = {item["structuredContent"] for item in let_in + others}
        assert len(seen) == 2, "one of the workers did all of it"

        wipe: dict[str, Any] = {"arguments": {"what": "disk"}}
        asked = call(serving, key, "wipe", **wipe)
        yes = {
            **wipe,
            "requestState": asked["requestState"],
            "inputResponses": {"toolcrib.confirm": {"action": "accept", "content": {}}},
        }
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            kinds = Counter(pool.map(lambda _: call(serving, key, "wipe", **yes)["resultType"], range(16)))
        assert kinds == {"complete": 1, "input_required": 15}
        assert serving.end() == 0
    log = open_log(tmp_path / "audit.db")
    assert log.verify().is_sound
    calls = [item for item in log.records() if item["kind"] == "call"]
    assert Counter((item["tool"], item["outcome"]) for item in calls) == {
        ("where", "ok"): 20,
        ("where", "throttled"): 20,
        ("free", "ok"): 40,
        ("wipe", "input_required"): 16,
        ("wipe", "ok"): 1,
    }
    assert len({item["id"] for item in calls}) == len(calls)
    assert {item["principal"] for item in calls} == {"key:ana"}


def test_the_limits_of_a_policy_in_code_are_of_all_workers_together(tmp_path: Path) -> None:
    code = """
from toolcrib import MCPServer
from toolcrib.policy import Limit, Policy

server = MCPServer("shop", policy=Policy(limits=[Limit(rate="5/24h")]))

@server.tool
def add(a: int) -> int:
    \"\"\"Add one.\"\"\"
    return a + 1
"""
    (tmp_path / "shop.py").write_text(code)
    with Serving("shop.py", "--workers", "2", cwd=tmp_path) as serving:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            results = list(pool.map(lambda _: call(serving, None, "add", arguments={"a": 1}), range(20)))
        assert [item["isError"] for item in results].count(False) == 5


def test_wrong_keys_are_counted_once_for_all_workers(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    auth = '[auth]\nkeys = "keys.json"\nmax_failures = "4/h"\nrequests = "1000/s"\n'
    (tmp_path / "toolcrib.toml").write_text('[server]\ntargets = ["tools.py"]\n' + auth)
    key, _ = Keys(tmp_path / "keys.json").create("ana")
    with Serving("--workers", "2", cwd=tmp_path) as serving:
        statuses = Counter(serving.post({}, x_api_key=f"wrong-{number}")[0] for number in range(40))
        assert statuses == {401: 4, 429: 36}
        assert call(serving, key, "free")["isError"] is False
        serving.wait_for("toolcrib.toml:6: auth.requests: each of 2 workers counts requests")
