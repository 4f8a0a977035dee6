"""Applications and their HTTP methods, against a real API on the loopback interface."""

from __future__ import annotations

import asyncio
import inspect
import json
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.servers.api_server import API, SECRET, GitHubApp, WeatherApp
from toolcrib.component import tool
from toolcrib.errors import APIError, ConfigurationError
from toolcrib.sources.applications import APIApplication, Application


@pytest.mark.requirement("U-28")
def test_the_weather_application_of_document_u_works(api: API) -> None:
    app = WeatherApp(api.origin)
    assert app.get_weather("London") == {"city": "London", "units": "metric", "temperature": 21.5}
    assert app.get_weather("New York", units="imperial")["city"] == "New York"
    assert app.list_tools() == [app.get_weather]
    with pytest.raises(APIError, match=r"^GET /weather answered 404 Not Found: city not found$") as error:
        app.get_weather("Nowhere")
    assert error.value.status == 404
    assert json.loads(error.value.body or "")["cod"] == "404"


def test_an_application_in_the_manner_of_universal_mcp_works(api: API) -> None:
    integration = object()
    app = GitHubApp(integration=integration, colour="blue")
    assert (app.name, app.integration, app.settings) == ("github", integration, {"colour": "blue"})
    app.base_url = api.origin
    assert app.create_issue("T", "B") == {"number": 7, "title": "T", "body": "B", "labels": None}
    assert app.list_issues("closed") == [{"number": 7, "state": "closed"}]
    sent = app.get("/echo")["headers"]
    assert (sent["authorization"], sent["accept"]) == (f"Bearer {SECRET}", "application/vnd.github.v3+json")
    with pytest.raises(APIError, match="leaves"):
        app._get("https://api.github.invalid/repos")


def test_an_application_that_never_calls_its_parents_constructor_works(api: API) -> None:
    class BareApp(APIApplication):
        base_url = api.origin

        def __init__(self) -> None:
            self.colour = "blue"

    assert BareApp().get("/echo")["target"] == "/echo"
    assert (BareApp().name, BareApp().timeout_s) == ("bare", 30.0)


def test_base_headers_and_time_are_looked_up_with_every_request(api: API) -> None:
    app = APIApplication("http://127.0.0.1:1", headers={"X-A": "1"})
    app.base_url, app.headers, app.timeout_s = f"{api.origin}/v1", {"X-B": "2"}, 9
    sent = app.get("echo")
    assert (sent["target"], sent["headers"]["x-b"], "x-a" in sent["headers"]) == ("/v1/echo", "2", False)
    app.base_url, app.timeout_s = api.origin, 0.1
    with pytest.raises(APIError, match=r"^GET /slow: no response within 0\.1 s$"):
        app.get("/slow")
    with pytest.raises(APIError, match=r"within 0\.05 s"):
        app.get("/slow", timeout_s=0.05)


def test_an_application_without_a_base_says_so() -> None:
    with pytest.raises(APIError, match="base_url is not set"):
        WeatherApp().get_weather("London")
    with pytest.raises(ConfigurationError, match="base_url"):
        WeatherApp("api.example.com").get_weather("London")


@pytest.mark.parametrize(
    ("credentials", "header"),
    [
        ({"api_key": "k"}, "Bearer k"),
        ({"access_token": "t"}, "Bearer t"),
        ({"headers": {"Authorization": "Basic x"}}, "Basic x"),
        ({}, None),
    ],
)
def test_an_integration_gives_its_credentials(
    api: API, credentials: dict[str, Any], header: str | None
) -> None:
    class Integration:
        def get_credentials(self) -> dict[str, Any]:
            return credentials

    app = APIApplication(api.origin, integration=Integration())
    assert app.get("/echo")["headers"].get("authorization") == header


@pytest.mark.requirement("X-35")
@pytest.mark.parametrize("verb", ["get", "post", "put", "patch", "delete"])
async def test_every_verb_comes_in_four_kinds(api: API, verb: str) -> None:
    app = APIApplication(api.origin)

    async def ask(kind: str, path: str) -> Any:
        answer = getattr(app, kind)(path, params={"b": 2})
        return await answer if inspect.isawaitable(answer) else answer

    for kind in (verb, f"a{verb}"):
        told = await ask(kind, "/echo?a=1")
        assert (told["method"], told["target"]) == (verb.upper(), "/echo?a=1&b=2")
        with pytest.raises(
            APIError, match=f"^{verb.upper()} /say answered 418 I'm a Teapot: short and stout$"
        ):
            await ask(kind, "/say?status=418&body=short and stout")
    for kind in (f"_{verb}", f"_a{verb}"):
        assert (await ask(kind, "/echo?a=1")).json()["target"] == "/echo?a=1&b=2"
        response = await ask(kind, "/say?status=418")
        assert (response.status_code, response.is_success, response.text) == (418, False, "")
    await app.close()


def test_a_verb_has_a_signature_and_words_of_its_own() -> None:
    assert list(inspect.signature(APIApplication.post).parameters) == [
        "self",
        "path",
        "data",
        "params",
        "options",
    ]
    assert list(inspect.signature(APIApplication().get).parameters) == ["path", "params", "options"]
    assert "Send a GET request." in (APIApplication.get.__doc__ or "")
    with pytest.raises(
        TypeError, match=r"unknown option: colour \(options: params, data, headers, json, form"
    ):
        APIApplication("http://127.0.0.1:1").get("/x", colour=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("options", "body", "content_type"),
    [
        ({"data": {"a": [1]}}, '{"a":[1]}', "application/json"),
        ({"data": []}, "[]", "application/json"),
        ({"data": '{"a":1}'}, '{"a":1}', "application/json"),
        (
            {"data": {"a": 1}, "content_type": "application/merge-patch+json"},
            '{"a":1}',
            "application/merge-patch+json",
        ),
        (
            {"data": {"a": "1 2"}, "content_type": "application/x-www-form-urlencoded"},
            "a=1+2",
            "application/x-www-form-urlencoded",
        ),
        ({"data": "plain", "content_type": "text/plain"}, "plain", "text/plain"),
        ({"json": {"a": 1}}, '{"a":1}', "application/json"),
        ({"form": {"a": "1"}}, "a=1", "application/x-www-form-urlencoded"),
        ({"content": b"raw", "headers": {"Content-Type": "text/x"}}, "raw", "text/x"),
        ({}, "", "application/json"),
    ],
)
def test_a_body_is_what_its_option_says(
    api: API, options: dict[str, Any], body: str, content_type: str
) -> None:
    app = APIApplication(api.origin, headers={"Content-Type": "application/json"})
    told = app.post("/echo", **options)
    assert (told["body"], told["headers"]["content-type"]) == (body, content_type)


def test_files_are_sent_as_multipart(api: API) -> None:
    app = APIApplication(api.origin, headers={"Content-Type": "application/json"})
    for extra in (
        {"data": {"a": "1"}},
        {"form": {"a": "1"}},
        {"data": {"a": "1"}, "content_type": "multipart/form-data"},
    ):
        told = app.post("/echo", files={"f": ("n.txt", b"inside")}, **extra)
        assert told["headers"]["content-type"].startswith("multipart/form-data; boundary=")
        assert 'name="a"' in told["body"]
        assert "inside" in told["body"]


@pytest.mark.parametrize("extra", [{"form": {}}, {"json": {}}, {"content": b""}])
def test_two_bodies_are_a_mistake(api: API, extra: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="give"):
        APIApplication(api.origin).post("/echo", {"a": 1}, **extra)


@pytest.mark.parametrize(
    ("kind", "body", "data"),
    [
        ("application/json", '{"a": 1}', {"a": 1}),
        ("application/hal+json; charset=utf-8", "[1]", [1]),
        ("application/json", "42", 42),
        ("text/plain", '{"a": 1}', {"a": 1}),
        ("text/plain", "42", "42"),
        ("text/plain", "{almost", "{almost"),
        ("text/html; charset=latin-1", "caf\xe9", "café"),
        ("text/plain; charset=nonsense", "plain", "plain"),
        ("application/xml", "<a/>", "<a/>"),
        ("application/octet-stream", "\xff\xfe\x00", b"\xff\xfe\x00"),
        ("application/json", " ", {}),
        ("", "", {}),
    ],
)
def test_an_answer_becomes_data(api: API, kind: str, body: str, data: Any) -> None:
    target = f"/say?status=200&type={quote(kind)}&body={quote(body)}"
    assert APIApplication(api.origin).get(target) == data


def test_no_content_is_an_empty_object_and_broken_json_an_error(api: API) -> None:
    app = APIApplication(api.origin)
    assert app.delete("/say?status=204") == {}
    with pytest.raises(APIError, match=r"^GET /say: the response is not JSON$"):
        app.get("/say?status=200&type=application/json&body={broken")


def test_one_connection_serves_an_application_until_it_is_closed(api: API) -> None:
    app = WeatherApp(api.origin)
    for _ in range(5):
        app.get_weather("London")
    assert api.connections == 1
    asyncio.run(app.close())
    app.get_weather("London")
    assert api.connections == 2


@pytest.mark.parametrize(
    ("class_name", "name"),
    [
        ("WeatherApp", "weather"),
        ("GitHubApp", "github"),
        ("GoogleDocsApplication", "google_docs"),
        ("WhatsAppApp", "whatsapp"),
        ("HTTPBinApp", "http_bin"),
        ("S3App", "s3"),
        ("App", "app"),
        ("_InnerApp", "inner"),
        ("Calculator", "calculator"),
    ],
)
def test_an_application_is_named_after_its_class(class_name: str, name: str) -> None:
    cls = type(class_name, (Application,), {})
    assert cls.name == cls().name == name
    assert cls("other").name == "other"


def test_a_name_and_a_namespace_may_be_class_attributes() -> None:
    class JiraApp(Application):
        name = "tickets"
        namespace = "jira"

    class CloudApp(JiraApp):
        pass

    assert (CloudApp().name, CloudApp().namespace, Application().namespace) == ("tickets", "jira", None)


def test_marked_public_methods_are_tools_in_the_order_of_their_definition() -> None:
    class First(Application):
        @tool
        def zebra(self) -> str:
            return "first"

        @tool
        def gone(self) -> None: ...

        @tool
        def _hidden(self) -> None: ...

        def unmarked(self) -> None: ...

        @property
        def trap(self) -> None:
            raise AssertionError("a property must not be run")

    class Second(First):
        @staticmethod
        @tool
        def apple() -> None: ...

        @tool
        @classmethod
        def pear(cls) -> None: ...

        @tool
        def zebra(self) -> str:
            return "second"

        def gone(self) -> None: ...

    app = Second()
    assert [tool.__name__ for tool in app.list_tools()] == ["zebra", "apple", "pear"]
    assert app.list_tools()[0]() == "second"
    assert Application().list_tools() == []


async def test_opening_and_closing_are_hooks_that_do_nothing_by_default(api: API) -> None:
    app = WeatherApp(api.origin)
    await app.open()
    await app.close()
    assert api.connections == 0
