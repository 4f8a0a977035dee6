"""The outbound HTTP client, against a real server on the loopback interface."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.support.servers.scripted_http_server import SECRET, World, told
from toolcrib.errors import APIError, ConfigurationError
from toolcrib.http_client import HTTPClient


@pytest.mark.parametrize(
    ("base", "path", "target"),
    [
        ("", "/weather", "/weather"),
        ("", "weather", "/weather"),
        ("/", "/weather", "/weather"),
        ("/", "weather", "/weather"),
        ("/api/v3", "/repos/a/b", "/api/v3/repos/a/b"),
        ("/api/v3/", "repos", "/api/v3/repos"),
        ("/api/v3", "", "/api/v3"),
        ("/api/v3/", "", "/api/v3/"),
        ("/api/v3", "?page=2", "/api/v3?page=2"),
        ("", "", "/"),
        ("", "/weather?q=London&units=metric", "/weather?q=London&units=metric"),
        ("", "/weather?q=New York", "/weather?q=New%20York"),
        ("", "/weather?q=São Paulo", "/weather?q=S%C3%A3o%20Paulo"),
        ("", "/search?q=C# jobs&page=2", "/search?q=C%23%20jobs&page=2"),
        ("", "/projects/group%2Fname", "/projects/group%2Fname"),
        ("", "/files/a..b/.hidden/...", "/files/a..b/.hidden/..."),
        ("", "/at/@user:8080/x", "/at/@user:8080/x"),
        ("", "/search?next=../../etc", "/search?next=../../etc"),
    ],
)
def test_a_path_is_joined_to_the_base_address(world: World, base: str, path: str, target: str) -> None:
    assert told(HTTPClient(world.origin + base).request("GET", path))["target"] == target


def test_params_join_the_query_that_is_in_the_path(world: World) -> None:
    outbound = HTTPClient(world.origin)
    params = {"units": "metric", "page": 2, "tag": ["a", "b&c"], "deep": True, "left_out": None}
    target = told(outbound.request("GET", "/weather?q=New York&page=1", params=params))["target"]
    assert parse_qsl(urlsplit(target).query) == [
        ("q", "New York"),
        ("page", "2"),
        ("units", "metric"),
        ("tag", "a"),
        ("tag", "b&c"),
        ("deep", "true"),
    ]


LEAVING = {
    "another host": "https://evil.example/steal",
    "another host without scheme": "//evil.example/steal",
    "another scheme": "https://{place}/api/x",
    "another port": "http://127.0.0.1:1/api/x",
    "a longer host": "http://{place}.evil.example/api/x",
    "the base as a user name": "http://{place}@evil.example/api/x",
    "a user name": "http://user:pw@{place}/api/x",
    "a fragment before the host": "http://evil.example#@{place}/api/x",
    "a host ended by a backslash": "http://evil.example\\@{place}/api/x",
    "a file": "file:///etc/passwd",
    "a scheme with one slash": "http:/evil.example",
    "a path beside the base": "http://{place}/admin",
    "a path with the base as a prefix": "http://{place}/apiary",
    "an encoded base path": "http://{place}/%61pi/x",
    "no path": "http://{place}",
    "dots": "/../admin",
    "dots without a slash": "../admin",
    "dots that stay below": "/x/../y",
    "dots at the end": "/x/..",
    "a single dot": "/./x",
    "encoded dots": "/%2e%2e/admin",
    "half encoded dots": "/.%2E/admin",
    "twice encoded dots": "/%252e%252e/admin",
    "dots and an encoded slash": "/..%2fadmin",
    "dots and an encoded backslash": "/..%5cadmin",
    "dots with parameters": "/..;x=1/admin",
    "dots and a space": "/..%20/admin",
    "endless encoding": "/%2525252525252e/admin",
    "dots in a full address": "http://{place}/api/../admin",
    "a backslash": "/\\evil.example",
    "two backslashes": "\\\\evil.example\\x",
    "a line break": "/x\r\nHost: evil.example",
    "a lone line feed": "/x\ny",
    "a line break in the query": "/x?a=1\r\nX: y",
    "a tab": "/x\ty",
    "a null": "/x\0",
    "an encoded line break": "/x%0d%0aHost: evil.example",
    "an encoded null": "/x%00",
    "a lone surrogate": "/\ud800",
    "an address without end": "/" + "x" * 70_000,
}


@pytest.mark.parametrize("path", LEAVING.values(), ids=LEAVING)
async def test_a_request_that_would_leave_the_base_is_never_sent(world: World, path: str) -> None:
    outbound = HTTPClient(f"{world.origin}/api")
    path = path.replace("{place}", f"127.0.0.1:{world.server_port}")
    with pytest.raises(APIError, match="GET refused: ") as sync_error:
        outbound.request("GET", path)
    with pytest.raises(APIError, match="GET refused: ") as async_error:
        await outbound.arequest("GET", path)
    assert world.requests == []
    assert world.connections == 0
    for error in (sync_error, async_error):
        assert not any(word in str(error.value) for word in ("evil", "passwd", "admin", "pw"))
        assert error.value.__cause__ is None


@pytest.mark.parametrize(
    "path", ["ftp://host/x", "file:///etc/passwd", "gopher://host", "/relative", "//host/x", ""]
)
def test_without_a_base_only_full_http_addresses_are_asked(path: str) -> None:
    with pytest.raises(APIError, match="GET refused"):
        HTTPClient().request("GET", path)


def test_without_a_base_any_http_address_may_be_asked(world: World) -> None:
    response = HTTPClient().request("GET", f"{world.origin}/openapi.json?x=1")
    assert told(response)["target"] == "/openapi.json?x=1"
    assert response.label == "GET /openapi.json"


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host",
        "host/path",
        "http://",
        "http://a b/",
        "http://h/../x",
        "http://h/x?y=1",
        "http://h:99999",
        "http://h\n",
    ],
)
def test_a_base_address_that_cannot_work_is_a_configuration_error(url: str) -> None:
    with pytest.raises(ConfigurationError, match="base_url"):
        HTTPClient(url)


def test_name_and_password_of_the_base_become_basic_authentication(world: World) -> None:
    base = world.origin.replace("http://", "http://ann:p%40ss@")
    outbound = HTTPClient(base)
    sent = told(outbound.request("GET", "/x"))
    assert sent["headers"]["authorization"] == "Basic YW5uOnBAc3M="
    assert sent["headers"]["host"] == f"127.0.0.1:{world.server_port}"
    assert told(outbound.request("GET", f"{base}/x"))["target"] == "/x"
    assert (
        told(outbound.request("GET", "/x", headers={"Authorization": "Bearer t"}))["headers"]["authorization"]
        == "Bearer t"
    )
    explicit = HTTPClient(base, auth=("bob", "pw"))
    assert told(explicit.request("GET", "/x"))["headers"]["authorization"] == "Basic Ym9iOnB3"


def test_headers_may_be_a_function_that_is_asked_each_time(world: World) -> None:
    tokens = iter(["one", "two"])
    outbound = HTTPClient(
        world.origin, headers=lambda: {"Authorization": f"Bearer {next(tokens)}", "X-None": None}
    )
    assert told(outbound.request("GET", "/x"))["headers"]["authorization"] == "Bearer one"
    sent = told(outbound.request("GET", "/x", headers={"X-Own": "1"}))["headers"]
    assert (sent["authorization"], sent["x-own"], "x-none" in sent) == ("Bearer two", "1", False)


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Token": f"{SECRET}\r\nX-Admin: 1"},
        {"X-Token": f"{SECRET}\n"},
        {"X-Token": f"{SECRET}\0"},
        {f"X: {SECRET}\r\nX-Admin": "1"},
        {"X Token": SECRET},
        {"Host": "evil.example"},
        {"Content-Length": "0"},
        {"transfer-encoding": "chunked"},
        {"X-Token": "\ud800"},
    ],
)
@pytest.mark.parametrize("standing", [True, False])
def test_a_header_that_would_change_the_request_is_refused(
    world: World, headers: dict[str, str], standing: bool
) -> None:
    outbound = HTTPClient(world.origin, headers=headers if standing else None)
    with pytest.raises(APIError, match="GET refused") as error:
        outbound.request("GET", "/x", headers=None if standing else headers)
    assert SECRET not in str(error.value)
    assert world.connections == 0


def test_each_kind_of_body_brings_its_content_type(world: World) -> None:
    outbound = HTTPClient(world.origin, headers={"Content-Type": "application/json"})
    as_json = told(outbound.request("POST", "/x", json={"a": [1, None]}))
    assert (as_json["body"], as_json["headers"]["content-type"]) == ('{"a":[1,null]}', "application/json")
    assert told(outbound.request("POST", "/x", json=None))["body"] == "null"
    patched = told(
        outbound.request("PATCH", "/x", json={}, headers={"content-type": "application/merge-patch+json"})
    )
    assert patched["headers"]["content-type"] == "application/merge-patch+json"
    form = told(outbound.request("PUT", "/x", data={"a": "1 2", "b": ["x", "y"]}))
    assert (form["body"], form["headers"]["content-type"]) == (
        "a=1+2&b=x&b=y",
        "application/x-www-form-urlencoded",
    )
    files = told(
        outbound.request("POST", "/x", data={"a": "1"}, files={"f": ("n.txt", b"inside", "text/plain")})
    )
    assert files["headers"]["content-type"].startswith("multipart/form-data; boundary=")
    assert 'filename="n.txt"' in files["body"]
    assert "inside" in files["body"]
    raw = told(
        outbound.request("POST", "/x", content=b"\x01raw", headers={"Content-Type": "application/x-own"})
    )
    assert (raw["body"], raw["headers"]["content-type"]) == ("\x01raw", "application/x-own")
    empty = told(outbound.request("POST", "/x"))
    assert (empty["body"], empty["headers"]["content-length"]) == ("", "0")


def test_two_bodies_and_unknown_options_are_mistakes_of_the_author(world: World) -> None:
    outbound = HTTPClient(world.origin)
    with pytest.raises(TypeError, match="one body"):
        outbound.request("POST", "/x", json={}, content=b"")
    with pytest.raises(TypeError, match="unknown option: timeout"):
        outbound.request("GET", "/x", timeout=3)  # type: ignore[call-arg]


def test_a_number_that_json_cannot_express_is_named(world: World) -> None:
    with pytest.raises(APIError, match=r"POST refused: a\.b is nan"):
        HTTPClient(world.origin).request("POST", "/x", json={"a": {"b": float("nan")}})
