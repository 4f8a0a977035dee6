"""A web page in Chromium. It needs no driver: the page posts what it has seen back to where it came from."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.system.requires import lack

TIMEOUT_S = 60.0
NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
)


class Page:
    """A page, served at `port` of the loopback. It reports with a POST of JSON to its own origin."""

    def __init__(self, html: str, port: int, reports: queue.Queue[Any]) -> None:
        self.html = html
        self.port = port
        self._reports = reports

    def show(self, folder: Path, count: int = 1) -> list[Any]:
        """Open the page at 127.0.0.1 in a new browser, and return its first reports."""
        found = next(filter(None, map(shutil.which, NAMES)), None)
        if found is None:
            lack("chromium is not installed")
        command = [found, *OPTIONS, f"--user-data-dir={folder}", f"http://127.0.0.1:{self.port}/"]
        browser = subprocess.Popen(
            command,
            env={**os.environ, "HOME": str(folder)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return [self._reports.get(timeout=TIMEOUT_S) for _ in range(count)]
        finally:
            os.killpg(browser.pid, signal.SIGKILL)  # its own processes, and no others
            browser.wait(TIMEOUT_S)


@contextmanager
def serving_page(html: str) -> Iterator[Page]:
    """Serve a page until the block ends; its text may be replaced before it is shown."""
    reports: queue.Queue[Any] = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(page.html.encode())

        def do_POST(self) -> None:
            reports.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self._answer(b"")

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        page = Page(html, server.server_address[1], reports)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield page
        finally:
            server.shutdown()
            thread.join()
