"""B1: who may talk to a server by HTTP. Foreign hosts and pages are refused, whatever it is bound to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.clients.raw_http_client import request
from tests.support.servers.http_servers import HTTP_STACKS, Served, serving
from tests.wire.cases import encode, message
from tests.wire.site import make_server

PING = encode(message("ping"))
BOUND = ("127.0.0.1", "0.0.0.0")

FOREIGN_HOSTS = (
    *(
        "evil.com",
        "evil.com:80",
        "localhost.evil.com",
        "127.0.0.1.evil.com",
        "evil.com.localhost",
        "xlocalhost",
    ),
    *("localhostx", "localhost.", "localhost.localdomain", "local host", "localhost:80:80", "localhost:http"),
    *(
        "localhost:",
        "localhost:-1",
        "localhost:65536",
        "localhost:99999",
        "localhost:8000x",
        "localhost/",
        "@localhost",
    ),
    *(
        "user@localhost",
        "localhost@evil.com",
        "localhost:80@evil.com",
        "evil.com@localhost",
        "localhost#evil.com",
    ),
    *(
        "localhost?evil.com",
        "localhost\\evil.com",
        "evil.com/localhost",
        "http://localhost",
        "//localhost",
        "*",
    ),
    *(
        "localhost,evil.com",
        "localhost evil.com",
        "evil.com, localhost",
        "[evil.com]",
        "[localhost]",
        "[127.0.0.1]",
    ),
    *(
        "127.0.0.2",
        "127.1",
        "127.0.1",
        "0177.0.0.1",
        "0x7f.0.0.1",
        "2130706433",
        "0.0.0.0",
        "0",
        "[::]",
        "::1",
    ),
    *(
        "[::ffff:127.0.0.1]",
        "[::1",
        "::1]",
        "[::1]x",
        "[::1%25lo]",
        "[0:0:0:0:0:0:0:2]",
        "192.168.0.1",
        "169.254.169.254",
    ),
    *(
        "",
        ".",
        "-",
        ":",
        ":8000",
        "ⓛocalhost",
        "locaIhost",
        "localh\u00f6st",
        "xn--localhost-xyz",
        "a" * 300,
        "metadata.google.internal",
    ),
)
HONEST_HOSTS = (
    *(
        "localhost",
        "localhost:8000",
        "LOCALHOST",
        "LocalHost:1",
        "127.0.0.1",
        "127.0.0.1:65535",
        "[::1]",
        "[::1]:8000",
    ),
    *(" localhost", "localhost:0"),
)
FOREIGN_ORIGINS = (
    *(
        "null",
        "NULL",
        "",
        "*",
        "evil.com",
        "localhost",
        "//localhost",
        "http:localhost",
        "http:/localhost",
        "http://",
    ),
    *("http://evil.com", "https://evil.com:8000", "http://localhost.evil.com", "http://evil.com.localhost"),
    *(
        "http://127.0.0.1.evil.com",
        "http://localhost:1@evil.com",
        "http://localhost@evil.com",
        "http://evil.com@localhost",
    ),
    *(
        "http://user:pass@localhost",
        "http://localhost:8000.evil.com",
        "http://localhost:80:80",
        "http://localhost:http",
    ),
    *(
        "http://localhost:",
        "http://localhost:99999",
        "http://localhost:-1",
        "http://localhost/",
        "http://localhost/x",
    ),
    *(
        "http://localhost#evil.com",
        "http://localhost?evil.com",
        "http://evil.com/localhost",
        "http://evil.com#localhost",
    ),
    *(
        "http://localhost\\evil.com",
        "http://localhost evil.com",
        "http://evil.com http://localhost",
        "http://xlocalhost",
    ),
    *(
        "http://localhost, http://evil.com",
        "http://localhost.",
        "http://127.1",
        "http://0x7f000001",
        "http://2130706433",
    ),
    *(
        "http://127.0.0.2",
        "http://0.0.0.0",
        "http://0",
        "http://[::]",
        "http://[::ffff:127.0.0.1]",
        "http://::1",
    ),
    *(
        "http://[127.0.0.1]",
        "http://[localhost]",
        "http://[::1",
        "ftp://localhost",
        "file://",
        "file://localhost",
    ),
    *(
        "ws://localhost",
        "chrome-extension://abcdef",
        "data:text/html,x",
        "javascript:alert(1)",
        "about:blank",
    ),
    *(
        "http://localhost%2eevil.com",
        "http://ⓛocalhost",
        "http://locaIhost",
        "http://10.0.0.1",
        "http://" + "a" * 300,
    ),
    *(
        "http://evil.localhost",
        "httpx://localhost",
        "https:///localhost",
        "http://http://localhost",
        " http://evil.com",
    ),
)
HONEST_ORIGINS = (
    *(
        "http://localhost",
        "http://localhost:3000",
        "https://localhost:8443",
        "http://127.0.0.1",
        "http://127.0.0.1:5173",
    ),
    *("http://[::1]", "http://[::1]:3000", "https://127.0.0.1", "http://LOCALHOST:3000"),
)


@pytest.fixture(
    scope="module", params=[(http_stack, host) for http_stack in HTTP_STACKS for host in BOUND], ids=str
)
def bound(request: Any) -> Iterator[Served]:
    http_stack, host = request.param
    with serving(http_stack, make_server(), host=host) as served:
        yield served
        assert not served.complaints


def _status(served: Served, headers: list[tuple[str, str]], body: bytes = PING, **options: Any) -> int:
    sent = [(name, value.encode().decode("latin-1")) for name, value in headers]
    return served.exchange(request(body, sent, **options)).status


def test_there_are_enough_of_them() -> None:
    assert len({*FOREIGN_HOSTS}) + len({*FOREIGN_ORIGINS}) > 120


def test_a_foreign_host_is_refused(bound: Served) -> None:
    passed = [host for host in FOREIGN_HOSTS if _status(bound, [("Host", host)]) not in (421, 400)]
    assert not passed


def test_a_foreign_page_is_refused(bound: Served) -> None:
    passed = [origin for origin in FOREIGN_ORIGINS if _status(bound, [("Origin", origin)]) != 403]
    assert not passed


def test_honest_hosts_and_pages_are_let_in(bound: Served) -> None:
    assert not [host for host in HONEST_HOSTS if _status(bound, [("Host", host)]) != 200]
    assert not [origin for origin in HONEST_ORIGINS if _status(bound, [("Origin", origin)]) != 200]


@pytest.mark.parametrize(
    "headers",
    [
        [("Host", "localhost"), ("Host", "evil.com")],
        [("Host", "evil.com"), ("Host", "localhost")],
        [("Host", "localhost"), ("Host", "localhost")],
        [("Origin", "http://localhost"), ("Origin", "http://evil.com")],
        [("Origin", "http://evil.com"), ("Origin", "http://localhost")],
        [("Host", "evil.com"), ("Origin", "http://localhost")],
        [("Host", "localhost"), ("Origin", "http://evil.com")],
        [("Host", "evil.com"), ("X-Forwarded-Host", "localhost")],
        [("Host", "evil.com"), ("Forwarded", "host=localhost")],
        [("Origin", "http://evil.com"), ("Referer", "http://localhost/")],
    ],
    ids=lambda headers: ", ".join(f"{name} {value}" for name, value in headers),
)
def test_several_headers_do_not_help(bound: Served, headers: list[tuple[str, str]]) -> None:
    assert _status(bound, headers) in (400, 403, 421)


def test_a_request_without_host_is_refused(bound: Served) -> None:
    assert bound.exchange(request(PING, host=None)).status in (400, 421)
    old = request(PING, host=None).replace(b"HTTP/1.1", b"HTTP/1.0")
    assert bound.exchange(old).status in (400, 421)


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS", "PUT", "HEAD"])
@pytest.mark.parametrize("path", ["/mcp", "/sse", "/messages", "/", "/nothing"])
def test_the_guard_stands_before_every_door(bound: Served, method: str, path: str) -> None:
    with bound.connect() as peer:
        peer.send(request(b"", [("Origin", "http://evil.com")], method=method, path=path))
        assert peer.read_head() == 403
    with bound.connect() as peer:
        peer.send(request(b"", [("Host", "evil.com")], method=method, path=path))
        assert peer.read_head() == 421


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
def test_more_hosts_and_pages_can_be_let_in_and_no_more_than_those(http_stack: str) -> None:
    options = {
        "allowed_hosts": ["tools.example", "other.example:81"],
        "allowed_origins": ["https://app.example"],
    }
    with serving(http_stack, make_server(), **options) as served:
        for host, status in {
            "tools.example": 200,
            "TOOLS.example:9000": 200,
            "other.example:81": 200,
            "other.example:82": 421,
            "other.example": 421,
            "x.tools.example": 421,
            "tools.example.evil": 421,
            "localhost": 200,
        }.items():
            assert _status(served, [("Host", host)]) == status, host
        for origin, status in {
            "https://app.example": 200,
            "http://app.example": 403,
            "https://app.example:444": 403,
            "https://app.example.evil": 403,
            "http://tools.example": 200,
        }.items():
            assert _status(served, [("Origin", origin)]) == status, origin
