"""B2: what headers repeat of a body must be there, once, and the same; else 400, -32020, and no tool runs."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.support.servers.http_servers import Served
from tests.wire.cases import HEADER, MODERN, OMIT, call, encode, headers_for, legacy, message, modern
from tests.wire.sending import count_runs, open_session

TOUCH = encode(call("modern", "touch", {}))
GOOD = headers_for(TOUCH)
Headers = list[tuple[str, str]]


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _over(**changes: str | None) -> Headers:
    """The good headers with some of them changed, or left out."""
    named = {key.replace("_", "-"): value for key, value in changes.items()}
    return [(name, value) for name, value in (GOOD | named).items() if value is not None]


def _double(name: str, *values: str) -> Headers:
    rest = [item for item in GOOD.items() if item[0] != name]
    return [*rest, *((name, value) for value in values)]


WRONG: dict[str, Headers] = {
    "no version": _over(MCP_Protocol_Version=None),
    "an older version": _over(MCP_Protocol_Version="2025-11-25"),
    "the oldest version": _over(MCP_Protocol_Version="2024-11-05"),
    "another version": _over(MCP_Protocol_Version="2026-07-29"),
    "an empty version": _over(MCP_Protocol_Version=""),
    "a version in base64": _over(MCP_Protocol_Version=f"=?base64?{_b64(MODERN)}?="),
    "two versions in one": _over(MCP_Protocol_Version="2026-07-28, 2026-07-28"),
    "no method": _over(Mcp_Method=None),
    "an empty method": _over(Mcp_Method=""),
    "another method": _over(Mcp_Method="tools/list"),
    "the method in capitals": _over(Mcp_Method="TOOLS/CALL"),
    "the method capitalised": _over(Mcp_Method="Tools/Call"),
    "the method in base64": _over(Mcp_Method=f"=?base64?{_b64('tools/call')}?="),
    "the method in quotes": _over(Mcp_Method='"tools/call"'),
    "the method and more": _over(Mcp_Method="tools/call, tools/list"),
    "the method, escaped": _over(Mcp_Method="tools%2Fcall"),
    "no name": _over(Mcp_Name=None),
    "an empty name": _over(Mcp_Name=""),
    "another name": _over(Mcp_Name="echo"),
    "the name in capitals": _over(Mcp_Name="TOUCH"),
    "the name in quotes": _over(Mcp_Name='"touch"'),
    "half of the name": _over(Mcp_Name="tou"),
    "the name and more": _over(Mcp_Name="touch,touch"),
    "the name, escaped": _over(Mcp_Name="%74ouch"),
    "another name in base64": _over(Mcp_Name=f"=?base64?{_b64('echo')}?="),
    "capital markers": _over(Mcp_Name=f"=?BASE64?{_b64('touch')}?="),
    "mixed markers": _over(Mcp_Name=f"=?Base64?{_b64('touch')}?="),
    "markers of mail": _over(Mcp_Name=f"=?utf-8?B?{_b64('touch')}?="),
    "no closing marker": _over(Mcp_Name=f"=?base64?{_b64('touch')}"),
    "no opening marker": _over(Mcp_Name=f"{_b64('touch')}?="),
    "markers that share a mark": _over(Mcp_Name="=?base64?="),
    "nothing in base64": _over(Mcp_Name="=?base64??="),
    "base64 without padding": _over(Mcp_Name="=?base64?dG91Y2g?="),
    "base64 with more padding": _over(Mcp_Name="=?base64?dG91Y2g==?="),
    "base64 with other last bits": _over(Mcp_Name="=?base64?dG91Y2h=?="),
    "base64 with a blank": _over(Mcp_Name="=?base64?dG91 Y2g=?="),
    "base64 of another alphabet": _over(Mcp_Name="=?base64?dG91Y2g-?="),
    "base64 with a mark in it": _over(Mcp_Name="=?base64?dG91Y2g=!?="),
    "base64 twice": _over(Mcp_Name=f"=?base64?{_b64('=?base64?' + _b64('touch') + '?=')}?="),
    "base64 of no text": _over(Mcp_Name=f"=?base64?{base64.b64encode(bytes([255, 254])).decode()}?="),
    "base64 of UTF-16": _over(Mcp_Name=f"=?base64?{base64.b64encode('touch'.encode('utf-16')).decode()}?="),
    "text after base64": _over(Mcp_Name="=?base64?dG91Y2g=?=x"),
    "text before base64": _over(Mcp_Name="x=?base64?dG91Y2g=?="),
    "bytes that are no text": _over(Mcp_Name="touch\xff"),
    "a look-alike": _over(Mcp_Name="tоuch".encode().decode("latin-1")),
    "the version twice": _double("MCP-Protocol-Version", MODERN, MODERN),
    "two versions": _double("MCP-Protocol-Version", MODERN, "2025-11-25"),
    "two versions, the older first": _double("MCP-Protocol-Version", "2025-11-25", MODERN),
    "the method twice": _double("Mcp-Method", "tools/call", "tools/call"),
    "two methods": _double("Mcp-Method", "tools/call", "tools/list"),
    "the name twice": _double("Mcp-Name", "touch", "touch"),
    "two names": _double("Mcp-Name", "touch", "echo"),
    "two names, the other first": _double("Mcp-Name", "echo", "touch"),
    "no headers at all": [],
}
RIGHT: dict[str, Headers] = {
    "as they are": _over(),
    "names in lower case": [(name.lower(), value) for name, value in GOOD.items()],
    "names in capitals": [(name.upper(), value) for name, value in GOOD.items()],
    "blanks around": [(name, f" \t{value} \t") for name, value in GOOD.items()],
    "the name in base64": _over(Mcp_Name=f"=?base64?{_b64('touch')}?="),
    "the name in base64, with blanks": _over(Mcp_Name=f"  =?base64?{_b64('touch')}?=  "),
    "unknown headers": [*GOOD.items(), ("Mcp-Other", "x"), ("Mcp-Param-Region", "x")],
    "a session that means nothing": [*GOOD.items(), ("Mcp-Session-Id", "nonsense")],
    "an event that means nothing": [*GOOD.items(), ("Last-Event-ID", "1-1")],
}


@pytest.mark.parametrize("name", WRONG)
def test_a_header_that_is_not_what_the_body_says_is_refused(site: Served, name: str) -> None:
    with site.connect() as peer:
        runs = count_runs(peer)
        response = peer.post(TOUCH, WRONG[name])
        assert (response.status, response.code, response.json["id"]) == (400, HEADER, 7)
        assert count_runs(peer) == runs


@pytest.mark.parametrize("name", RIGHT)
def test_a_header_that_says_the_same_is_taken(site: Served, name: str) -> None:
    with site.connect() as peer:
        runs = count_runs(peer)
        assert peer.post(TOUCH, RIGHT[name]).status == 200
        assert count_runs(peer) == runs + 1


@pytest.mark.parametrize("method", ["tools/list", "server/discover", "nothing/such"])
def test_every_method_is_held_to_its_headers(site: Served, method: str) -> None:
    body = encode(modern(method))
    with site.connect() as peer:
        for wrong in ({"Mcp-Method": "tools/call"}, {"MCP-Protocol-Version": "2025-11-25"}):
            assert peer.post(body, headers_for(body) | wrong).code == HEADER
        assert peer.post(body, headers_for(body)).code != HEADER


def test_headers_play_no_part_for_older_clients(site: Served) -> None:
    body = encode(call("legacy", "echo", {"value": 1}))
    odd = [("Mcp-Method", "nonsense"), ("Mcp-Name", "nonsense"), ("Mcp-Name", "twice")]
    with site.connect() as peer:
        assert peer.post(body, odd).result["isError"] is False
        session = open_session(peer)
        assert peer.post(body, [*odd, ("Mcp-Session-Id", session)]).result["isError"] is False


# --- the version -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1999-01-01", "2026-07-28", "x", "2025-11-25,2025-06-18", "\xff"])
def test_an_older_body_under_a_version_that_is_not_old_is_400(site: Served, version: str) -> None:
    with site.connect() as peer:
        runs = count_runs(peer)
        for message_ in (legacy("tools/list"), message("ping"), call("legacy", "touch", {})):
            response = peer.post(encode(message_), {"MCP-Protocol-Version": version})
            assert (response.status, response.code) == (400, -32602)
        start = legacy("initialize", protocolVersion="2025-11-25", capabilities={})
        response = peer.post(encode(start), {"MCP-Protocol-Version": version})
        assert (response.status, response.code) == (400, HEADER)
        notice = legacy("notifications/initialized", id_=OMIT)
        assert peer.post(encode(notice), {"MCP-Protocol-Version": version}).status == 202
        assert count_runs(peer) == runs


# --- arguments that headers repeat -------------------------------------------------------------------------

PARAMS_WRONG: dict[str, tuple[dict[str, Any], Headers]] = {
    "missing": ({"region": "eu"}, []),
    "different": ({"region": "eu"}, [("Mcp-Param-Region", "us")]),
    "in capitals": ({"region": "eu"}, [("Mcp-Param-Region", "EU")]),
    "empty": ({"region": "eu"}, [("Mcp-Param-Region", "")]),
    "twice": ({"region": "eu"}, [("Mcp-Param-Region", "eu"), ("Mcp-Param-Region", "eu")]),
    "twice, by case": ({"region": "eu"}, [("Mcp-Param-Region", "eu"), ("mcp-param-region", "us")]),
    "bad base64": ({"region": "eu"}, [("Mcp-Param-Region", "=?base64?ZXU?=")]),
    "without its argument": ({}, [("Mcp-Param-Region", "eu")]),
    "without arguments": ({"count": 5}, [("Mcp-Param-Region", "eu"), ("Mcp-Param-Count", "5")]),
    "for null": ({"region": None}, [("Mcp-Param-Region", "null")]),
    "one of two": ({"region": "eu", "count": 5}, [("Mcp-Param-Region", "eu")]),
    "another number": ({"count": 5}, [("Mcp-Param-Count", "6")]),
    "no number": ({"count": 5}, [("Mcp-Param-Count", "five")]),
    "a number with an underscore": ({"count": 50}, [("Mcp-Param-Count", "5_0")]),
    "a number in other digits": ({"count": 5}, [("Mcp-Param-Count", "٥".encode().decode("latin-1"))]),
    "a number in quotes": ({"count": 5}, [("Mcp-Param-Count", '"5"')]),
    "a number with a plus": ({"count": 5}, [("Mcp-Param-Count", "+5")]),
    "a number in hexadecimal": ({"count": 5}, [("Mcp-Param-Count", "0x5")]),
    "nearly the same number": ({"count": 2**53 + 1}, [("Mcp-Param-Count", "9007199254740992.0")]),
    "True": ({"dry": True}, [("Mcp-Param-Dry", "True")]),
    "1 for true": ({"dry": True}, [("Mcp-Param-Dry", "1")]),
    "true for false": ({"dry": False}, [("Mcp-Param-Dry", "true")]),
    "a list": ({"region": ["eu"]}, [("Mcp-Param-Region", "eu")]),
    "deep, missing": ({"where": {"zone": "a"}}, []),
    "deep, different": ({"where": {"zone": "a"}}, [("Mcp-Param-Zone", "b")]),
    "deep, without its argument": ({"where": {}}, [("Mcp-Param-Zone", "a")]),
}
PARAMS_RIGHT: dict[str, tuple[dict[str, Any], Headers]] = {
    "none": ({}, []),
    "null": ({"region": None, "where": None}, []),
    "a text": ({"region": "eu"}, [("Mcp-Param-Region", "eu")]),
    "in other case": ({"region": "eu"}, [("MCP-PARAM-REGION", "eu")]),
    "in base64": ({"region": "eu"}, [("Mcp-Param-Region", "=?base64?ZXU=?=")]),
    "beyond ASCII": ({"region": "zürich "}, [("Mcp-Param-Region", f"=?base64?{_b64('zürich ')}?=")]),
    "an empty text": ({"region": ""}, [("Mcp-Param-Region", "")]),
    "a number": ({"count": 5}, [("Mcp-Param-Count", "5")]),
    "a number with a fraction": ({"count": 5}, [("Mcp-Param-Count", "5.0")]),
    "a negative number": ({"count": -5}, [("Mcp-Param-Count", "-5")]),
    "a large number": ({"count": 2**70}, [("Mcp-Param-Count", str(2**70))]),
    "true": ({"dry": True}, [("Mcp-Param-Dry", "true")]),
    "false": ({"dry": False}, [("Mcp-Param-Dry", "false")]),
    "deep": ({"where": {"zone": "a"}}, [("Mcp-Param-Zone", "a")]),
    "others": ({}, [("Mcp-Param-Other", "x")]),
}


def _mirror(arguments: Any) -> tuple[bytes, Headers]:
    body = encode(call("modern", "mirror", arguments))
    return body, list(headers_for(body).items())


@pytest.mark.parametrize("name", PARAMS_WRONG)
def test_an_argument_that_a_header_tells_differently_is_refused(site: Served, name: str) -> None:
    arguments, more = PARAMS_WRONG[name]
    body, headers = _mirror(arguments)
    with site.connect() as peer:
        runs = count_runs(peer, "mirror")
        response = peer.post(body, [*headers, *more])
        assert (response.status, response.code, response.json["id"]) == (400, HEADER, 7)
        assert count_runs(peer, "mirror") == runs


@pytest.mark.parametrize("name", PARAMS_RIGHT)
def test_an_argument_that_a_header_repeats_is_taken(site: Served, name: str) -> None:
    arguments, more = PARAMS_RIGHT[name]
    body, headers = _mirror(arguments)
    with site.connect() as peer:
        response = peer.post(body, [*headers, *more])
        assert response.status == 200
        assert "result" in response.json


def test_an_older_client_repeats_nothing(site: Served) -> None:
    body = encode(call("legacy", "mirror", {"region": "eu", "count": 5}))
    assert site.post(body).result["isError"] is False
