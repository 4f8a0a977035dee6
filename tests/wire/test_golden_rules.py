"""I6: what is kept in the transcripts is right, by rules that know nothing of how the server is built.

Every message is judged by the official SDK's models of its version, and by what the specification asks of
each revision; so a mistake cannot be recorded and then be held for right.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from mcp_types import methods

from tests.wire.golden import kept
from tests.wire.golden.plays import VERSIONS

LEGACY = VERSIONS[:-1]
MODERN = "2026-07-28"
CODES = {-32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022}
INFO = "io.modelcontextprotocol/serverInfo"
STATUS = {-32700: {400}, -32600: {400}, -32601: {404}, -32602: {200, 400}}
STATUS |= {-32020: {400}, -32021: {400}, -32022: {400}}
FIELDS = {
    "2024-11-05": {"name", "description", "inputSchema"},
    "2025-03-26": {"name", "description", "inputSchema", "annotations"},
    "2025-06-18": {"name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta"},
}
FIELDS["2025-11-25"] = FIELDS["2025-06-18"] | {"icons"}
FIELDS[MODERN] = FIELDS["2025-11-25"]
KINDS = {"2024-11-05": {"text", "image", "resource"}}
KINDS["2025-03-26"] = KINDS["2024-11-05"] | {"audio"}
KINDS |= dict.fromkeys(VERSIONS[2:], KINDS["2025-03-26"] | {"resource_link"})


@dataclass
class Turn:
    """Something that was said, and all that was heard of it. `status` is None over a pipe."""

    play: str
    said: Any = None
    status: int | None = None
    heard: list[Any] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    @property
    def request(self) -> dict[str, Any]:
        return self.said if isinstance(self.said, dict) else {}


def turns(version: str) -> Iterator[Turn]:
    for script in kept.read(version).split("\n\n=="):
        name, *lines = script.removeprefix("==").strip("\n").split("\n")
        turn = Turn(name.strip())
        for line in lines:
            mark, text = line[0], line[2:]
            if mark == ">" and turn.lines:
                yield turn
                turn = Turn(name.strip())
            if mark == ">":
                turn.said = _read(text) or turn.said
            elif found := re.match(r"(\d{3})(?: |$)", text):
                turn.status = int(found[1])
                turn.lines.append(text)
            else:
                turn.lines.append(text)
                message = _read(text.removeprefix("data: "))
                turn.heard += message if isinstance(message, list) else [message] if message else []
        yield turn


def _read(text: str) -> Any:
    whole = text.replace("<envelope>", '"":0')
    try:
        return json.loads(whole) if whole[:1] in "{[" else None
    except ValueError:
        return None


@pytest.fixture(params=VERSIONS)
def version(request: Any) -> str:
    found: str = request.param
    return found


def every(version: str, wanted: Callable[[dict[str, Any]], bool]) -> list[tuple[Turn, dict[str, Any]]]:
    """Every message that was heard and is wanted; there are some."""
    found = [(turn, item) for turn in turns(version) for item in turn.heard if wanted(item)]
    assert found
    return found


def test_every_result_and_notification_is_one_of_its_version(version: str) -> None:
    asked = {}
    for turn in turns(version):
        if "method" in turn.request and isinstance(turn.request.get("id"), str | int):
            asked[turn.play, turn.request["id"]] = turn.request["method"]
        for item in turn.heard:
            if "result" in item and (turn.play, item["id"]) in asked:
                methods.validate_server_result(asked[turn.play, item["id"]], version, item["result"])
            elif "method" in item and "id" not in item:
                methods.parse_server_notification(item["method"], version, item.get("params"))
            elif "method" in item:
                methods.parse_server_request(item["method"], version, item.get("params"))


def test_every_error_has_a_known_code_and_words(version: str) -> None:
    for turn, item in every(version, lambda item: "error" in item):
        assert item["error"]["code"] in CODES, turn.play
        assert item["error"]["message"], turn.play
        assert set(item) <= {"jsonrpc", "id", "error"}


def test_every_reply_names_the_id_that_was_sent_unless_none_could_be_read(version: str) -> None:
    for turn, item in every(version, lambda item: "method" not in item):
        sent = turn.request.get("id")
        if "id" in item:
            assert type(item["id"]) in (str, int), turn.play
            assert "method" not in turn.request or item["id"] == sent, turn.play
        elif item["error"]["code"] != -32700 and turn.status in (None, 200, 400):
            assert type(sent) not in (str, int) or len(str(sent)) > 256, turn.play


def test_statuses_over_http_are_those_of_the_error_codes(version: str) -> None:
    for turn, item in every(version, lambda item: "error" in item and "id" in item):
        code = item["error"]["code"]
        if turn.status is None or isinstance(turn.said, list):
            continue
        if version == MODERN or turn.play.startswith(("headers: no known", "headers: the newer")):
            assert turn.status in STATUS[code], turn.play
        else:
            assert turn.status == (400 if code in (-32700, -32600) else 200), turn.play


def test_a_modern_result_says_that_it_is_complete_and_whose_it_is() -> None:
    for turn, item in every(MODERN, lambda item: "result" in item):
        assert item["result"]["resultType"] in ("complete", "input_required"), turn.play
        assert item["result"]["_meta"][INFO]["name"] == "desk", turn.play
        method = turn.request["method"]
        is_list = method.endswith("/list") or method == "server/discover"
        assert ("ttlMs" in item["result"]) == ("cacheScope" in item["result"]) == is_list, turn.play


def test_a_modern_client_is_never_sent_a_request_nor_an_event_to_come_back_to() -> None:
    for turn in turns(MODERN):
        assert not any("method" in item and "id" in item for item in turn.heard), turn.play
        assert not any(line.startswith(("id:", "retry:")) for line in turn.lines), turn.play


@pytest.mark.parametrize("version", LEGACY)
def test_an_older_result_has_nothing_of_the_newer_era(version: str) -> None:
    for turn, item in every(version, lambda item: "result" in item):
        assert not {"resultType", "ttlMs", "cacheScope"} & set(item["result"]), turn.play
        assert INFO not in item["result"].get("_meta", {}), turn.play


def test_tools_have_the_fields_that_their_version_knows(version: str) -> None:
    seen = set()
    for _, item in every(version, lambda item: "tools" in item.get("result", {})):
        for tool in item["result"]["tools"]:
            seen |= set(tool)
            assert tool["inputSchema"]["type"] == "object"
            if version != MODERN:
                assert tool.get("outputSchema", {"type": "object"})["type"] == "object"
    assert seen == FIELDS[version]


def test_content_is_of_the_kinds_that_its_version_knows(version: str) -> None:
    seen = set()
    for turn, item in every(version, lambda item: "content" in item.get("result", {})):
        seen |= {block["type"] for block in item["result"]["content"]}
        if "structuredContent" in item["result"]:
            assert version >= "2025-06-18", turn.play
            value = item["result"]["structuredContent"]
            assert version == MODERN or isinstance(value, dict), turn.play
    assert seen == KINDS[version]


def test_bad_arguments_are_an_error_or_a_result_as_the_version_has_it(version: str) -> None:
    def is_bad(item: dict[str, Any]) -> bool:
        return "Invalid arguments for tool" in json.dumps(item)

    for turn, item in every(version, is_bad):
        assert ("error" in item) == (version <= "2025-06-18"), turn.play


def test_questions_are_those_that_the_version_knows(version: str) -> None:
    asked = {}
    for turn in turns(version):
        for item in turn.heard:
            inner = item.get("result", {}).get("inputRequests", {"": item}).values()
            for each in inner:
                if each.get("method", "").partition("/")[0] in ("elicitation", "sampling", "roots"):
                    asked.setdefault(each["method"], set()).add(each["params"].get("mode"))
    known = {"sampling/createMessage": {None}, "roots/list": {None}}
    if version >= "2025-06-18":
        known["elicitation/create"] = {"form", "url"} if version >= "2025-11-25" else {None}
    assert asked == known


@pytest.mark.parametrize("version", LEGACY)
def test_only_the_newest_sessions_are_told_where_to_come_back_to_before_anything_else(version: str) -> None:
    lines = [line for turn in turns(version) for line in turn.lines]
    assert any(re.fullmatch(r"id: \d+-\d+", line) for line in lines)
    assert ("data: " in lines) == any(line == "retry: 500" for line in lines) == (version == "2025-11-25")
