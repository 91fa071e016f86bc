"""The server: Gradio's application behind the request guard, run by uvicorn on a socket of ours."""

from __future__ import annotations

import hmac
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.middleware.trustedhost import TrustedHostMiddleware

from rationales.app.service import ExplainService
from rationales.app.views.assets import app_asset
from rationales.app.web.page import build_page
from rationales.app.web.request_guard import RequestGuard
from rationales.app.web.theme import theme
from rationales.errors import OptionError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
SHUTDOWN_SECONDS = 3


def application(service: ExplainService, host: str = "127.0.0.1", auth: tuple[str, str] | None = None) -> Any:
    """The ASGI application."""
    import gradio

    blocks = build_page(service)
    blocks.has_launched = True  # else Gradio does not check the paths in requests
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app = gradio.mount_gradio_app(
        app,
        blocks,
        path="/",
        auth=None if auth is None else password_check(*auth),
        footer_links=["api"],
        run_history=False,
        show_error=False,
        allowed_paths=[],
        blocked_paths=["/"],
        max_file_size=1,
        ssr_mode=False,
        enable_monitoring=False,
        pwa=False,
        mcp_server=False,
        theme=theme(),
        head=f"<style>{app_asset('app.css')}</style>",  # as `css` Gradio would rewrite it
    )
    if host in LOOPBACK:  # a page elsewhere cannot reach this server under a name of its own
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost", "[::1]"])
    return RequestGuard(app, service.limits.request_bytes)


def password_check(user: str, password: str) -> Callable[[str, str], bool]:
    """Compares in constant time."""

    def check(given_user: str, given_password: str) -> bool:
        same_user = hmac.compare_digest(given_user.encode(), user.encode())
        return hmac.compare_digest(given_password.encode(), password.encode()) and same_user

    return check


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket at this address; an OptionError where it is taken or not ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise OptionError(f"cannot listen at {host}:{port}: {reason}; give another --host or --port") from None
    return listener


def address_of(listener: socket.socket) -> str:
    """The address that a browser opens."""
    host, port = listener.getsockname()[:2]
    shown_host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{shown_host}:{port}/"


def run_server(server: uvicorn.Server, service: ExplainService, listener: socket.socket) -> None:
    """Serve until Ctrl-C; running jobs are stopped then."""
    try:
        server.run(sockets=[listener])
    finally:
        service.jobs.stop_all()


@contextmanager
def background_server(
    service: ExplainService, host: str = "127.0.0.1", port: int = 0, auth: tuple[str, str] | None = None
) -> Iterator[str]:
    """Serve in a thread inside the block; yields the address. Port 0 takes a free one."""
    listener = bound_socket(host, port)
    server = make_server(service, host, auth)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.02)
        yield address_of(listener)
    finally:
        service.jobs.stop_all()
        server.should_exit = True
        thread.join(2 * SHUTDOWN_SECONDS)
        listener.close()


def make_server(service: ExplainService, host: str, auth: tuple[str, str] | None) -> uvicorn.Server:
    """The server of a page, ready to run."""
    config = uvicorn.Config(
        application(service, host, auth),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    return uvicorn.Server(config)
