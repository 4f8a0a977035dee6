"""A8: what a body says it is, and what a client says it can read. Near misses are misses."""

from __future__ import annotations

import pytest

from tests.support.clients.raw_http_client import request
from tests.support.servers.http_servers import Served
from tests.wire.cases import encode, message

PING = encode(message("ping"))


@pytest.mark.parametrize(
    "value",
    [
        "application/json",
        "application/json;charset=utf-8",
        "application/json; charset=UTF-8",
        'application/json; charset="utf-8"',
        "application/json ; charset=utf8",
        "Application/JSON",
        "application/json;",
        "application/json; profile=x",
        " application/json ",
    ],
)
def test_json_by_any_of_its_names_is_taken(site: Served, value: str) -> None:
    assert site.post(PING, {"Content-Type": value}).result == {}


@pytest.mark.parametrize(
    "value",
    [
        *("", " ", "text/plain", "text/json", "text/html", "text/event-stream", "application/octet-stream"),
        *(
            "application/jsonXXX",
            "application/jso",
            "application/json5",
            "application/x-json",
            "xapplication/json",
        ),
        *(
            "application/json-patch+json",
            "application/vnd.api+json",
            "application/ld+json",
            "application/ndjson",
        ),
        *(
            "application/json-rpc",
            "application/jsonrequest",
            "application/json/x",
            "application/ json",
            "json",
        ),
        *("application", "application/", "/json", "*/*", "application/*", "application/json, text/plain"),
        *("text/plain; application/json", "text/plain, application/json", "application/json text/plain"),
        *("multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "application\\json"),
        *(
            "application/json; charset=utf-16",
            "application/json;charset=latin-1",
            "application/json; charset=utf-7",
        ),
        *(
            "application/json\t;charset=utf-32",
            "aрplication/json",
            "application/json\xa0",
            "\x7fapplication/json",
        ),
    ],
)
def test_anything_else_is_refused(site: Served, value: str) -> None:
    with site.connect() as peer:
        response = peer.post(PING, {"Content-Type": value.encode().decode("latin-1")})
        assert response.status in (415, 400)
        if response.status == 400:  # the parser of HTTP did not let it pass
            return
        assert response.code == -32600


@pytest.mark.parametrize(
    "value",
    [
        "application/json, text/event-stream",
        "text/event-stream,application/json",
        "TEXT/Event-Stream, Application/JSON",
        "application/json;q=0.9, text/event-stream;q=0.1",
        "*/*",
        "application/*, text/*",
        "application/json, */*;q=0.1",
    ],
)
def test_a_client_that_reads_both_forms_is_served(site: Served, value: str) -> None:
    assert site.post(PING, {"Accept": value}).status == 200


def test_accept_may_come_in_two_lines_or_not_at_all(site: Served) -> None:
    with site.connect() as peer:
        lines = [("Accept", "application/json"), ("Accept", "text/event-stream")]
        assert peer.post(PING, lines).status == 200
        bare = request(PING).replace(b"Accept: application/json, text/event-stream\r\n", b"")
        assert b"Accept" not in bare
        peer.send(bare)
        assert peer.read().status == 200


@pytest.mark.parametrize(
    "value",
    [
        "",
        "application/json",
        "text/event-stream",
        "text/html",
        "application/jsonx, text/event-streamx",
        "json",
        "*",
    ],
)
def test_a_client_that_cannot_read_one_of_them_is_told(site: Served, value: str) -> None:
    response = site.post(PING, {"Accept": value})
    assert (response.status, response.code) == (406, -32600)
