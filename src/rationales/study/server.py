"""A small server for a study: it gives out the page and appends checked answers to a file. For a local network."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from rationales.errors import DataError, InputError
from rationales.files import read_text
from rationales.study.answers import parse_answer

MAX_BYTES = 2**20  # of the answers of one person
TIMEOUT = 30.0  # seconds for a request


class StudyServer(ThreadingHTTPServer):
    """Serves the page of one study and nothing else."""

    daemon_threads = True
    request_queue_size = 128  # people of a class who send their answers at the same moment

    def __init__(self, address: tuple[str, int], page: Path, key: Mapping[str, Any], answers: Path) -> None:
        self.page = read_text(page).encode()
        self.key, self.answers, self.lock = key, answers, threading.Lock()
        if str(key["study"]) not in self.page.decode():
            raise InputError(
                f"{page} is not the page of the study {key['study']}; give the page and the key of one study"
            )
        super().__init__(address, _Handler)

    def store(self, body: str) -> int:
        """Append the answers in `body`, JSON lines; all of them or, where one is wrong, none. Returns their number."""
        lines = []
        for number, line in enumerate(filter(str.strip, body.split("\n")), 1):
            try:
                data = json.loads(line)
            except (json.JSONDecodeError, RecursionError):
                raise DataError(f"answer {number} is not JSON") from None
            if not isinstance(data, dict):
                raise DataError(f"answer {number} is no object")
            lines.append(parse_answer(data, self.key, f"answer {number}").to_line(self.key["task"]) + "\n")
        if not lines:
            raise DataError("there are no answers")
        with self.lock, self.answers.open("a", encoding="utf-8") as file:
            file.write("".join(lines))
        return len(lines)


class _Handler(BaseHTTPRequestHandler):
    timeout = TIMEOUT
    server: StudyServer

    def do_GET(self) -> None:  # called by http.server
        if self.path == "/favicon.ico":  # browsers ask for it
            self._reply(HTTPStatus.NO_CONTENT, b"")
            return
        if self.path.split("?")[0] not in ("/", "/index.html"):
            self._reply(HTTPStatus.NOT_FOUND, b"there is only the page of the study\n")
            return
        self._reply(HTTPStatus.OK, self.server.page, "text/html; charset=utf-8")

    def do_POST(self) -> None:  # called by http.server
        if self.path != "/answers":
            self._reply(HTTPStatus.NOT_FOUND, b"answers go to /answers\n")
            return
        origin = self.headers.get("Origin")
        if origin is not None and origin.partition("://")[2] != self.headers.get("Host"):
            self._reply(HTTPStatus.FORBIDDEN, b"answers come from the page of the study\n")
            return
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            self._reply(HTTPStatus.LENGTH_REQUIRED, b"the length is missing\n")
            return
        if int(length) > MAX_BYTES:
            self._reply(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, b"too long\n")
            return
        try:
            count = self.server.store(self.rfile.read(int(length)).decode("utf-8"))
        except (DataError, UnicodeDecodeError) as error:
            self._reply(HTTPStatus.BAD_REQUEST, f"{error}\n".encode())
            return
        self._reply(HTTPStatus.OK, f"{count}\n".encode())

    def _reply(self, status: HTTPStatus, content: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  # named so by http.server
        """Nothing is printed for a request: addresses of participants are nobody's business."""
