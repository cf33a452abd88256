"""HTTP for agents behind an address: checks of addresses and headers, connections, and errors as AgentFailures."""

import asyncio
import errno
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from seatrial.clock import now
from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorKind
from seatrial.model.results import AgentFailure, TrialError, agent_timed_out

if TYPE_CHECKING:
    import ssl

    import httpx2


def check_url(url: Any, *, where: str) -> str:
    """The address, if it is a valid one."""
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        valid = parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or re.search(r"[\x00-\x20]", url):
        raise UsageError(f"{where}: expected an address such as http://localhost:8000/v1, got {url!r}")
    return str(url)


def check_headers(headers: Any, *, where: str) -> dict[str, str]:
    """The headers, if they can be sent. Values may be secrets, so no message shows one."""
    if headers is None:
        return {}
    if not isinstance(headers, Mapping):
        raise UsageError(f"{where}: expected a mapping of header names to texts, got {type(headers).__name__}")
    for name, value in headers.items():
        if not isinstance(name, str) or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
            raise UsageError(f"{where}: {name!r} cannot be the name of a header")
        if not isinstance(value, str):
            raise UsageError(f"{where}.{name}: expected a text, got a value of type {type(value).__name__}")
        if re.search(r"[^\t\x20-\x7e]", value) or value != value.strip():
            raise UsageError(f"{where}.{name}: the value has blanks at its ends, line breaks or non-ASCII characters")
    return dict(headers)


def show_url(url: str) -> str:
    """The address without its possible secrets: user name, password and query."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{host}{port}{parts.path}"


def is_loopback(host: str) -> bool:
    """Whether the host is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


SHOWN_CHARACTERS = 500
_RETRYABLE = (408, 409, 425, 429)

_HINTS: Mapping[int, str] = {
    401: "check the agent's headers: the endpoint does not accept the credentials",
    403: "check the agent's headers: the endpoint does not accept the credentials",
    404: "check the agent's address and model",
    405: "check the agent's address and method",
    429: "lower --concurrency, set rpm, or allow retries",
}


def refusal(status: int, headers: Mapping[str, str], body: bytes) -> AgentFailure:
    """The failure for a status that is not 2xx."""
    if 300 <= status < 400:
        target = headers.get("location", "nowhere")
        return AgentFailure(
            f"endpoint returned {status}, a redirect to {target[:SHOWN_CHARACTERS]}",
            hint="redirects are not followed; give the agent's final address",
            final=True,
        )
    return AgentFailure(
        f"endpoint returned {status}: {show_body(body)}",
        hint=_HINTS.get(status),
        retry_after=read_retry_after(headers.get("retry-after")),
        final=400 <= status < 500 and status not in _RETRYABLE,
    )


def not_an_answer(what: str, body: bytes | str) -> AgentFailure:
    """The failure for a 2xx response without a usable body."""
    return AgentFailure(f"endpoint {what}: {show_body(body)}")


def not_json(media_type: str, body: bytes) -> AgentFailure:
    """The failure for a body that is not JSON."""
    if "json" in media_type:
        return not_an_answer("returned a body that is not JSON", body)
    return not_an_answer(f"returned {media_type or 'a body without content-type'} where JSON was due", body)


def show_body(body: bytes | str) -> str:
    """The start of a body, for error texts."""
    text = (body if isinstance(body, str) else body[: SHOWN_CHARACTERS * 4 + 4].decode("utf-8", "replace")).strip()
    if not text:
        return "(empty body)"
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def read_retry_after(value: str | None) -> float | None:
    """Seconds to wait, from a number or a date; None without a valid header."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (_in_utc(date) - now()).total_seconds())


def _in_utc(date: datetime) -> datetime:
    return date.replace(tzinfo=UTC) if date.tzinfo is None else date


MAX_BODY_BYTES = 10_000_000
_MAX_ERROR_BYTES = 16_000
_DRAIN_SECONDS = 0.25
_KEEPALIVE_SECONDS = 4.0
"""uvicorn and Node close an idle connection after 5 s: stop using it before that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None


class HttpResponse:
    """A 2xx response whose body is not read yet."""

    def __init__(self, response: "httpx2.Response") -> None:
        self._response = response
        self.status = response.status_code
        self.media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body in pieces, up to the limit."""
        size = 0
        async with aclosing(self._response.aiter_bytes()) as parts:
            async for chunk in parts:
                size += len(chunk)
                if size > MAX_BODY_BYTES:
                    raise _too_large(self.status)
                yield chunk

    async def read(self) -> bytes:
        async with aclosing(self.chunks()) as chunks:
            return b"".join([chunk async for chunk in chunks])

    async def drain(self, chunks: AsyncGenerator[bytes, None]) -> None:
        """Read the rest of a body for a moment, so that its connection can be used again."""
        import httpx2

        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                async for _ in chunks:
                    pass
        except (TimeoutError, httpx2.HTTPError, AgentFailure):
            pass  # the answer is complete; only the connection is lost


class HttpConnections:
    """The connections of one agent during one run.

    Each exchange uses its own client. A client's pool checks all its connections whenever one changes: with 1,000 at
    once this took 15 s of CPU instead of 4.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._secure = parts.scheme == "https"
        # An address on this machine is never behind a proxy.
        self._trust_env = not is_loopback(parts.hostname or "")
        self._idle: list[httpx2.AsyncClient] = []
        self._ssl: ssl.SSLContext | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @asynccontextmanager
    async def exchange(
        self, request: HttpRequest, *, timeout: float, cookies: "httpx2.Cookies | None" = None
    ) -> AsyncIterator[HttpResponse]:
        """The response to a request. Raises AgentFailure for the endpoint's errors, TrialError(limit) if it is slow."""
        import httpx2

        try:
            async with asyncio.timeout(timeout), self._borrow() as client:
                built = client.build_request(
                    request.method, request.url, headers=dict(request.headers), content=request.content
                )
                if cookies is not None:
                    cookies.set_cookie_header(built)
                response = await client.send(built, stream=True, follow_redirects=False)
                try:
                    if cookies is not None:
                        cookies.extract_cookies(response)
                    if not response.is_success:
                        raise refusal(response.status_code, response.headers, await _read_start(response))
                    yield HttpResponse(response)
                finally:
                    await response.aclose()
        except TimeoutError:
            raise agent_timed_out(timeout) from None
        except httpx2.HTTPError as error:
            raise _explain(error, request.url) from error

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().aclose()

    @asynccontextmanager
    async def _borrow(self) -> AsyncIterator["httpx2.AsyncClient"]:
        """An unused client; the one that was used last, since its connection is still open."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._idle, self._loop = [], loop
        client = self._idle.pop() if self._idle else self._make_client()
        try:
            yield client
        finally:
            if self._loop is loop:
                self._idle.append(client)

    def _make_client(self) -> "httpx2.AsyncClient":
        from http.cookiejar import CookieJar, DefaultCookiePolicy

        import httpx2

        return httpx2.AsyncClient(
            verify=self._ssl_context(),
            trust_env=self._trust_env,
            timeout=None,
            limits=httpx2.Limits(keepalive_expiry=_KEEPALIVE_SECONDS),
            # A client serves many trials: a stored cookie would carry one trial's session into another.
            cookies=CookieJar(policy=DefaultCookiePolicy(allowed_domains=[])),
            headers={"user-agent": "seatrial"},
        )

    def _ssl_context(self) -> "ssl.SSLContext":
        """One for all clients: reading the certificates takes 100 ms. Plain HTTP needs none."""
        import ssl

        import httpx2

        if self._ssl is None:
            bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self._ssl = httpx2.create_ssl_context() if self._secure else bare
        return self._ssl


async def _read_start(response: "httpx2.Response") -> bytes:
    start = b""
    async with aclosing(response.aiter_bytes()) as parts:
        async for chunk in parts:
            start += chunk
            if len(start) >= _MAX_ERROR_BYTES:
                break
    return start[:_MAX_ERROR_BYTES]


def _too_large(status: int) -> AgentFailure:
    size = f"{MAX_BODY_BYTES // 1_000_000} MB"
    return AgentFailure(f"endpoint returned {status} with a body of more than {size}", final=True)


def _explain(error: "httpx2.HTTPError", url: str) -> TrialError:
    """The failure for a network error, with nothing of the request but its address."""
    import httpx2

    where = show_url(url)
    system = _system_error(error)
    if system is not None and system.errno in (errno.EMFILE, errno.ENFILE):
        hint = "lower --concurrency, or raise the limit: ulimit -n 8192"
        return TrialError(ErrorKind.INFRA, f"too many open files to connect to {where}", hint=hint)
    reason = _system_text(system) or str(error) or type(error).__name__
    if isinstance(error, httpx2.ConnectError):
        hint = "is the agent running at this address?"
        return AgentFailure(f"cannot connect to {where}: {reason}", hint=hint, kind=ErrorKind.INFRA)
    if isinstance(error, httpx2.LocalProtocolError):
        return AgentFailure(f"the request to {where} cannot be sent", hint="check the agent's headers", final=True)
    if isinstance(error, httpx2.DecodingError):
        return AgentFailure(f"{where} sent a body that cannot be decompressed: {reason}")
    return AgentFailure(f"the connection to {where} broke: {reason}")


def _system_error(error: BaseException | None) -> OSError | None:
    """The operating system's error that caused a library's error."""
    while error is not None:
        if isinstance(error, OSError) and error.errno is not None:
            return error
        # A host with several addresses gives a group, with one error for each.
        grouped = error.exceptions[-1] if isinstance(error, BaseExceptionGroup) else None
        error = grouped or error.__cause__ or error.__context__
    return None


def _system_text(system: OSError | None) -> str | None:
    if system is None or system.errno is None:
        return None
    # asyncio replaces the text of a refused connection by its own, with the address in it.
    return os.strerror(system.errno) if isinstance(system, ConnectionError) else system.strerror
