"""Error messages of applications when an API returns an error."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.servers.api_server import API, SECRET
from toolcrib.errors import APIError
from toolcrib.sources.applications import APIApplication


def failure(app: APIApplication, **query: Any) -> APIError:
    with pytest.raises(APIError) as error:
        app.get("/say", query)
    return error.value


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"message": "city not found"}, "city not found"),
        ({"error": "no such user"}, "no such user"),
        ({"error": {"code": 5, "message": "quota spent"}}, "quota spent"),
        ({"error": "invalid_grant", "error_description": "The code is used up"}, "The code is used up"),
        ({"detail": "Not authenticated"}, "Not authenticated"),
        ({"detail": [{"loc": ["query", "q"], "msg": "field required"}]}, "field required"),
        ({"type": "about:blank", "title": "Out of stock", "detail": "Item 7 is gone"}, "Item 7 is gone"),
        ({"title": "Out of stock", "status": 400}, "Out of stock"),
        ({"errors": [{"message": "first"}, {"message": "second"}]}, "first"),
        (
            {"message": "Validation Failed", "errors": [{"message": "title is missing"}]},
            "Validation Failed (title is missing)",
        ),
        ({"errors": ["a word"]}, "a word"),
        ({"code": 12}, '{"code": 12}'),
        ("only text", "only text"),
        (
            "<html><style>b{}</style><h1>Bad&nbsp;Request</h1>\r\n<p>nginx &lt;1&gt;</p></html>",
            "Bad Request nginx <1>",
        ),
        ("bell\x07 and \x1b[31mred\x1b[0m &#27;", "bell and [31mred [0m"),
        ("", ""),
    ],
)
def test_an_error_repeats_the_words_of_the_api(api: API, body: Any, words: str) -> None:
    text = body if isinstance(body, str) else json.dumps(body)
    error = failure(APIApplication(api.origin), status=400, body=text)
    assert str(error) == "GET /say answered 400 Bad Request" + (f": {words}" if words else "")
    assert (error.status, error.body, error.details) == (400, text, {"status": 400})


def test_a_long_complaint_is_cut(api: API) -> None:
    words = str(failure(APIApplication(api.origin), status=500, body="x" * 2000)).partition("Error: ")[2]
    assert words == "x" * 499 + "…"


@pytest.mark.parametrize(
    "body", ["<" * 20_000, "<script " * 2500, "<script>" + "</script" * 2500, '{"a":' * 3000]
)
def test_a_hostile_complaint_is_read_in_time(api: API, body: str) -> None:
    assert len(str(failure(APIApplication(api.origin), status=500, body=body))) < 600


def test_a_wait_that_the_api_asks_for_is_passed_on(api: API) -> None:
    app = APIApplication(api.origin)
    assert str(failure(app, status=429, body="slow down", retry="30")).endswith(
        "slow down; try again in 30 s"
    )
    later = (datetime.now(UTC) + timedelta(seconds=100)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    assert "; try again in " in str(failure(app, status=503, retry=later))
    assert "; try again in 0 s" in str(failure(app, status=503, retry="Wed, 21 Oct 2015 07:28:00 GMT"))
    assert "try again" not in str(failure(app, status=503, retry="soon"))
    assert "try again" not in str(failure(app, status=400, retry="30"))


def test_an_unknown_status_and_a_redirect_are_errors_too(api: API) -> None:
    app = APIApplication(api.origin)
    assert str(failure(app, status=799, body="odd")) == "GET /say answered 799: odd"
    moved = str(failure(app, status=302, body="moved", to=f"https://elsewhere.example/?key={SECRET}"))
    assert moved == "GET /say answered 302 Found: redirects are not followed"


def test_no_secret_reaches_the_text_of_an_error(api: API) -> None:
    app = APIApplication(
        api.origin.replace("http://", f"http://ann:{SECRET}@"),
        headers={"X-API-Key": f"{SECRET}-header", "Authorization": f"Bearer {SECRET}-bearer"},
    )
    told = f"bad keys {SECRET}-header, Bearer {SECRET}-bearer, {SECRET}-bearer, {SECRET}-query for London"
    error = failure(app, status=401, body=told, apikey=f"{SECRET}-query", keyword="London")
    assert SECRET not in str(error)
    assert SECRET not in str(error.body)
    assert str(error).endswith("for London")
    for path in (f"/slow?key={SECRET}", f"https://evil.example/{SECRET}", f"/../{SECRET}"):
        with pytest.raises(APIError) as refused:
            app.get(path, timeout_s=0.05)
        assert SECRET not in str(refused.value)
