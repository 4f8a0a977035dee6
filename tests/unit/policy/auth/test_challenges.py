"""Challenges for callers who are refused, byte for byte, and where tokens are to be had."""

from __future__ import annotations

import json

import pytest

from toolcrib.policy.auth.authenticator import Challenges, Rejection

RESOURCE = "https://tools.example.com/mcp"
METADATA = 'resource_metadata="https://tools.example.com/.well-known/oauth-protected-resource/mcp"'


@pytest.fixture
def oauth() -> Challenges:
    return Challenges(
        resource=RESOURCE,
        path="/mcp",
        issuers=["https://login.example.com"],
        scopes=["read", "write", "read"],
        name="shop",
    )


def field(text: str) -> tuple[tuple[bytes, bytes], ...]:
    return ((b"www-authenticate", text.encode()),)


def test_anyone_who_shows_nothing_is_told_where_to_go_and_of_no_error(oauth: Challenges) -> None:
    expected = field(f'Bearer scope="read write", {METADATA}')
    assert oauth.missing() == Rejection(401, "Credentials are required", expected)


def test_anyone_who_shows_what_is_not_good_is_told_so(oauth: Challenges) -> None:
    text = f'Bearer error="invalid_token", scope="read write", {METADATA}, error_description="it is old"'
    assert oauth.invalid_token("it is old") == Rejection(401, "it is old", field(text))


def test_anyone_who_cannot_be_understood_is_told_so(oauth: Challenges) -> None:
    text = f'Bearer error="invalid_request", {METADATA}, error_description="two of them"'
    assert oauth.invalid_request("two of them") == Rejection(400, "two of them", field(text))


def test_anyone_who_lacks_scopes_is_told_which(oauth: Challenges) -> None:
    words = "The credentials lack a required scope"
    text = f'Bearer error="insufficient_scope", scope="pay refund", {METADATA}, error_description="{words}"'
    assert oauth.insufficient_scope(["pay", "refund", "pay"]) == field(text)


def test_a_server_that_takes_keys_only_names_no_place_to_get_tokens() -> None:
    keys = Challenges()
    assert keys.missing().headers == field('Bearer realm="toolcrib"')
    assert keys.invalid_token("no").headers == field('Bearer error="invalid_token", error_description="no"')
    words = "The credentials lack a required scope"
    text = f'Bearer error="insufficient_scope", scope="pay", error_description="{words}"'
    assert keys.insufficient_scope(["pay"]) == field(text)
    assert keys.metadata("/.well-known/oauth-protected-resource") is None
    assert Challenges(resource=RESOURCE).metadata("/.well-known/oauth-protected-resource") is None


def test_nothing_that_a_header_cannot_hold_gets_into_one(oauth: Challenges) -> None:
    scopes = oauth.insufficient_scope(['a"b', "c d", "e\r\nf: g", "ok", "", "ä", "back\\slash"])
    assert b' scope="ok", ' in scopes[0][1]
    words = oauth.invalid_token('say "x"\r\nSet-Cookie: y\\ \x00 ä').headers[0][1]
    assert words.endswith(b'error_description="say ?x???Set-Cookie: y? ? ?"')


def test_words_in_a_header_are_cut(oauth: Challenges) -> None:
    assert oauth.invalid_token("x" * 201).headers[0][1].endswith(b', error_description="' + b"x" * 200 + b'"')
    assert oauth.invalid_token("x" * 201).message == "x" * 201


# --- the document ---


def test_the_document_says_what_clients_need(oauth: Challenges) -> None:
    document = oauth.metadata("/.well-known/oauth-protected-resource/mcp")
    assert document is not None
    assert json.loads(document) == {
        "resource": RESOURCE,
        "authorization_servers": ["https://login.example.com"],
        "scopes_supported": ["read", "write"],
        "bearer_methods_supported": ["header"],
        "resource_name": "shop",
    }
    assert oauth.metadata("/.well-known/oauth-protected-resource") == document


@pytest.mark.parametrize("path", ["/mcp", "/", "", "/.well-known/oauth-protected-resource/other"])
def test_there_is_no_document_elsewhere(oauth: Challenges, path: str) -> None:
    assert oauth.metadata(path) is None


def test_anything_that_there_is_nothing_to_say_about_is_left_out() -> None:
    plain = Challenges(resource="http://127.0.0.1:8000/", path="/", issuers=["https://a.example"])
    document = plain.metadata("/.well-known/oauth-protected-resource")
    assert document is not None
    assert json.loads(document) == {
        "resource": "http://127.0.0.1:8000/",
        "authorization_servers": ["https://a.example"],
        "bearer_methods_supported": ["header"],
    }
    metadata = 'resource_metadata="http://127.0.0.1:8000/.well-known/oauth-protected-resource"'
    assert plain.missing().headers == field(f"Bearer {metadata}")
    assert plain.metadata("/.well-known/oauth-protected-resource/") == document


def test_behind_a_proxy_the_document_is_at_the_public_path_and_at_the_own_one() -> None:
    moved = Challenges(
        resource="https://example.com/tools/mcp",
        path="/mcp",
        issuers=["https://a.example", "https://b.example"],
    )
    place = "/.well-known/oauth-protected-resource"
    assert None not in [moved.metadata(path) for path in (place, f"{place}/mcp", f"{place}/tools/mcp")]
    assert f"https://example.com{place}/tools/mcp".encode() in moved.missing().headers[0][1]
