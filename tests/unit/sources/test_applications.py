"""Applications, their verbs and their words for errors, against a real API on the loopback."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qsl, quote, urlsplit

import pytest

from toolcrib.errors import APIError, ConfigurationError
from toolcrib.sources.applications import APIApplication, Application

SECRET = "s3cret-v4lue"


class Handler(BaseHTTPRequestHandler):
    """Weather, issues, an echo, and `/say`, which answers whatever its query asks for."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: API

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = dict(parse_qsl(url.query))
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if url.path == "/weather":
            self.send_weather(query)
        elif url.path == "/repos/me/it/issues" and self.command == "POST":
            self.send_json(201, {"number": 7, **json.loads(body)})
        elif url.path == "/repos/me/it/issues":
            self.send_json(200, [{"number": 7, "state": query.get("state", "open")}])
        elif url.path == "/say":
            self.send_text(int(query["status"]), query.get("body", "").encode("latin-1"), query)
        elif url.path == "/slow":
            self.server.released.wait(5)
            self.close_connection = True
        else:
            headers = {name.lower(): value for name, value in self.headers.items()}
            told = {"method": self.command, "target": self.path, "headers": headers, "body": body.decode()}
            self.send_json(200, told)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def send_weather(self, query: dict[str, str]) -> None:
        if query["q"] == "Nowhere":
            self.send_json(404, {"cod": "404", "message": "city not found"})
        else:
            self.send_json(200, {"city": query["q"], "units": query["units"], "temperature": 21.5})

    def send_json(self, status: int, data: Any) -> None:
        self.send_text(status, json.dumps(data).encode(), {"type": "application/json"})

    def send_text(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, name in (("type", "Content-Type"), ("retry", "Retry-After"), ("to", "Location")):
            if key in headers:
                self.send_header(name, headers[key])
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


class API(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.connections = 0
        self.released = threading.Event()
        self.origin = f"http://127.0.0.1:{self.server_port}"

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        super().process_request(request, client_address)


@pytest.fixture
def api() -> Iterator[API]:
    with API() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


class WeatherApp(APIApplication):
    def list_tools(self):
        return [self.get_weather]

    def get_weather(
        self, city: str, units: Literal["metric", "imperial"] = "metric", include_forecast: bool = False
    ) -> dict:
        """Get current weather for a city.

        Args:
            city: City name (e.g., "London", "New York")
            units: Temperature units (metric for Celsius, imperial for Fahrenheit)
            include_forecast: Whether to include 5-day forecast

        Returns:
            Weather data including temperature, humidity, and conditions
        """
        # Implementation
        return self.get(f"/weather?q={city}&units={units}")


class GitHubApp(APIApplication):
    """In the manner of existing applications: name and integration, a base set later, full addresses."""

    def __init__(self, integration: Any = None, **kwargs: Any) -> None:
        super().__init__(name="github", integration=integration, **kwargs)
        self.base_url = "https://api.github.invalid"

    def _get_headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {SECRET}", "Accept": "application/vnd.github.v3+json"}

    def list_tools(self) -> list[Callable]:
        return [self.create_issue, self.list_issues]

    def create_issue(self, title: str, body: str, labels: list[str] | None = None) -> dict:
        """Create a new GitHub issue."""
        url = f"{self.base_url}/repos/me/it/issues"
        return self._handle_response(self._post(url, data={"title": title, "body": body, "labels": labels}))

    def list_issues(self, state: str = "open") -> list[dict]:
        """List the issues."""
        response = self._get(f"{self.base_url}/repos/me/it/issues", params={"state": state})
        response.raise_for_status()
        return response.json()


def mark(function: Any) -> Any:
    """What `@tool` does as far as an application can see."""
    function.__toolcrib__ = {}
    return function


def failure(app: APIApplication, **query: Any) -> APIError:
    with pytest.raises(APIError) as error:
        app.get("/say", query)
    return error.value


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
    with pytest.raises(APIError, match="leads away from"):
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
    app.base_url, app.headers, app.timeout_s = f"{api.origin}/v1", {"X-B": "2"}, 0.1
    sent = app.get("echo")
    assert (sent["target"], sent["headers"]["x-b"], "x-a" in sent["headers"]) == ("/v1/echo", "2", False)
    app.base_url = api.origin
    with pytest.raises(APIError, match=r"^GET /slow: no answer within 0\.1 s$"):
        app.get("/slow")
    with pytest.raises(APIError, match=r"within 0\.05 s"):
        app.get("/slow", timeout_s=0.05)


def test_an_application_without_a_base_says_so() -> None:
    with pytest.raises(APIError, match="no base_url is set"):
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
    assert "GET `path`" in (APIApplication.get.__doc__ or "")
    with pytest.raises(TypeError, match="unknown option: colour"):
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
    with pytest.raises(APIError, match=r"^GET /say answered something that is not JSON$"):
        app.get("/say?status=200&type=application/json&body={broken")


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
    assert moved == "GET /say answered 302 Found: a redirect, which is not followed"


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


def test_one_connection_serves_an_application_until_it_is_closed(api: API) -> None:
    app = WeatherApp(api.origin)
    for _ in range(5):
        app.get_weather("London")
    assert api.connections == 1
    asyncio.run(app.close())
    app.get_weather("London")
    assert api.connections == 2


def test_many_threads_may_make_the_first_request_at_once(api: API) -> None:
    app = WeatherApp(api.origin)
    together = threading.Barrier(20)

    def ask(number: int) -> str:
        together.wait(5)
        return str(app.get_weather(f"city {number}")["city"])

    with ThreadPoolExecutor(20) as threads:
        assert list(threads.map(ask, range(20))) == [f"city {number}" for number in range(20)]
    assert api.connections <= 20
    asyncio.run(app.close())


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
        @mark
        def zebra(self) -> str:
            return "first"

        @mark
        def gone(self) -> None: ...

        @mark
        def _hidden(self) -> None: ...

        def unmarked(self) -> None: ...

        @property
        def trap(self) -> None:
            raise AssertionError("a property must not be run")

    class Second(First):
        @staticmethod
        @mark
        def apple() -> None: ...

        @mark
        @classmethod
        def pear(cls) -> None: ...

        @mark
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
