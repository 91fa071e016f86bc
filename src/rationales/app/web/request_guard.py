"""What reaches Gradio: no files, nothing from elsewhere, no request that is too large; and headers of every answer."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

# Routes of Gradio that read or write files, fetch addresses, or keep a visitor's inputs under a link. The page and the
# API use none of them.
CLOSED = (
    *("file", "upload", "proxy", "stream", "deep_link", "custom_component", "component_server", "process_recording"),
    *("vibe", "undo-vibe", "run-history", "runs", "dev", "profiling", "mcp", "monitoring", "svelte"),
)
PREFIX = "gradio_api/"
POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval'",  # Gradio compiles the templates of its components
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "media-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self' data: blob:",
        "object-src 'none'",
        "base-uri 'self'",
        "frame-ancestors 'self'",
    )
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


class RequestGuard:
    """ASGI middleware around the whole application."""

    def __init__(self, app: Callable[..., Awaitable[None]], max_bytes: int) -> None:
        self.app, self.max_bytes = app, max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if is_closed(scope["path"]):
            await refuse(send, 403, "this server neither stores nor serves files; send the content with the request")
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if not declared.isdigit() or int(declared) > self.max_bytes:
            await refuse(send, 413, f"the request is larger than {self.max_bytes:,} bytes, the limit of this server")
            return
        await self.app(scope, self._counted(receive), with_headers(send))

    def _counted(self, receive: Receive) -> Receive:
        """`receive`, which ends the connection where more comes than was declared."""
        total = 0

        async def limited() -> Message:
            nonlocal total
            message = await receive()
            total += len(message.get("body", b""))
            return {"type": "http.disconnect"} if total > self.max_bytes else message

        return limited


def is_closed(path: str) -> bool:
    """Whether a path belongs to a route that the page and the API do not use."""
    name = path.lstrip("/").removeprefix(PREFIX).lstrip("/")
    return name.startswith(CLOSED)


def with_headers(send: Send) -> Send:
    """`send`, with our headers added to each answer."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *HEADERS]}
        await send(message)

    return sending


async def refuse(send: Send, status: int, reason: str) -> None:
    """Answer with an error and its reason as JSON."""
    body = json.dumps({"error": reason}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
