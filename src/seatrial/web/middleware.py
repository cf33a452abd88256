"""Refuses requests that are not allowed, limits their size, and adds security headers."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import quote

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response

from .access import COOKIE, Access, Refusal
from .responses import AsciiJSONResponse

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LARGEST_BODY = 65_536
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not no-referrer: then our own forms would send no origin.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


class SecurityMiddleware:
    """Plain ASGI, because event streams must not be buffered."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], *, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        session = self._access.session(headers)
        fresh = None
        if session is None and not self._access.needs_token and not scope["path"].startswith(("/api/", "/static/")):
            session = fresh = self._access.new_session()
        scope.setdefault("state", {})["session"] = session
        cookie = None if fresh is None else session_cookie(fresh, secure=scope.get("scheme") == "https")
        answer = _ResponseWithHeaders(send, path=scope["path"], cookie=cookie)
        address = (scope.get("client") or ("",))[0]
        refusal = self._access.refuse(scope["method"], scope["path"], headers, address=address)
        refusal = refusal or _check_length(headers)
        if refusal is not None:
            await _refuse(scope, refusal)(scope, receive, answer.send)
            return
        await self._app(scope, _limited(receive), answer.send)


class _ResponseWithHeaders:
    """Sends the response with our headers."""

    def __init__(self, send: Send, *, path: str, cookie: str | None) -> None:
        self._send = send
        self._is_static = path.startswith("/static/")
        self._cookie = cookie

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
            headers["cache-control"] = "no-cache" if self._is_static else "no-store"
            if self._cookie is not None:
                headers.append("set-cookie", self._cookie)
        await self._send(message)


def session_cookie(value: str, *, secure: bool) -> str:
    """The session cookie: not readable by scripts, not sent to other sites, gone when the browser closes.

    `secure` if the request came over TLS, as a proxy on this machine reports it."""
    return f"{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}"


def no_cookie(*, secure: bool) -> str:
    """A cookie that deletes the session cookie."""
    return f"{session_cookie('', secure=secure)}; Max-Age=0"


_TOO_LARGE = Refusal(status=413, text=f"the body is larger than {LARGEST_BODY:,} bytes")


def _check_length(headers: Headers) -> Refusal | None:
    length = headers.get("content-length", "0")
    return _TOO_LARGE if not length.isdigit() or int(length) > LARGEST_BODY else None


def _limited(receive: Receive) -> Receive:
    """Limits bodies without a content-length."""
    read = 0

    async def limited() -> MutableMapping[str, Any]:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > LARGEST_BODY:
            raise HTTPException(_TOO_LARGE.status, _TOO_LARGE.text)
        return message

    return limited


def _refuse(scope: Scope, refusal: Refusal) -> Response:
    path = scope["path"]
    if refusal.status == 401 and not path.startswith("/api/") and scope["method"] == "GET":
        query = scope.get("query_string", b"").decode("ascii", "replace")
        wanted = path + (f"?{query}" if query else "")
        return RedirectResponse(f"/login?next={quote(wanted, safe='')}", status_code=303)
    headers = {"www-authenticate": "Bearer"} if refusal.status == 401 else {}
    if refusal.retry_after is not None:
        headers["retry-after"] = str(refusal.retry_after)
    return AsciiJSONResponse({"detail": refusal.text}, status_code=refusal.status, headers=headers)
