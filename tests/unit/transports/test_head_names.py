"""Heads that differ in the name of what they ask for share one parsed head."""

from __future__ import annotations

import pytest

from toolcrib.transports.http.request import Head, HeadCache

HEAD = b"POST /mcp HTTP/1.1\r\nHost: a\r\nMcp-Name: %b\r\nContent-Length: 5\r\n\r\n"


def cached(name: bytes = b"orders://1", **headers: bytes) -> HeadCache:
    heads = HeadCache()
    known = Head(
        "POST", "/mcp", {b"host": b"a", b"mcp-name": name, b"content-length": b"5"} | headers, length=5
    )
    known.is_post = True
    heads.store_bytes(HEAD % name, known)
    return heads


def test_a_head_with_another_name_is_not_parsed_again() -> None:
    found = cached().find_renamed(HEAD % b"orders://2")
    assert found is not None
    assert found.headers == {b"host": b"a", b"mcp-name": b"orders://2", b"content-length": b"5"}
    assert (found.length, found.is_post) == (5, True)


@pytest.mark.parametrize(
    "name", [b"", b" a", b"a ", b"a b", b"a\tb", b"a\x00b", b"\xc3\xa4", b"a\nHost: b"], ids=repr
)
def test_a_name_that_is_not_plain_is_left_to_the_parser(name: bytes) -> None:
    assert cached().find_renamed(HEAD % name) is None


def test_any_other_difference_is_left_to_the_parser() -> None:
    other = (HEAD % b"orders://2").replace(b"Host: a", b"Host: b")
    assert cached().find_renamed(other) is None
    assert cached().find_renamed(b"POST /mcp HTTP/1.1\r\nHost: a\r\n\r\n") is None
