"""A real HTTP API on the loopback interface, and applications that call it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

import pytest

from toolcrib.sources.applications import APIApplication

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
    """Written like existing applications: name and integration, base URL set later, full URLs."""

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
