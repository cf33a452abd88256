"""Who may do what: tokens, sessions, and whether a request comes from our own pages."""

import hmac
import re
import secrets
from collections.abc import Mapping
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from seatrial.vocabulary.value import Value

from .options import LOOPBACK, ServeOptions

COOKIE = "seatrial_session"
CSRF_HEADER = "x-csrf-token"
READING = ("GET", "HEAD", "OPTIONS")
OPEN_PATHS = ("/login", "/static/")
_STARTS_CODE = re.compile(r"/api/runs(/[^/]+/resume)?")


class Refusal(Value):
    """Why a request goes no further."""

    status: int
    text: str


class Access:
    """Checks requests by their method, path and headers alone, before anything else sees them."""

    def __init__(self, options: ServeOptions) -> None:
        self._options = options
        # From the token where there is one, so that a restart does not log anybody out.
        self._key = sha256(options.token.encode()).digest() if options.token else secrets.token_bytes(32)

    @property
    def needs_token(self) -> bool:
        return self._options.token is not None

    def is_token(self, text: str) -> bool:
        """Whether it is the token; how long the answer takes says nothing about it."""
        token = self._options.token or ""
        return bool(token) and hmac.compare_digest(text.encode("utf-8", "replace"), token.encode())

    def new_session(self) -> str:
        """The value of a cookie that only this server can have made."""
        nonce = secrets.token_urlsafe(18)
        return f"{nonce}.{self._sign('session', nonce)}"

    def session(self, headers: Mapping[str, str]) -> str | None:
        """The session of the request's cookie; None where there is none that we made."""
        value = _cookies(headers.get("cookie", "")).get(COOKIE, "")
        nonce, _, signature = value.partition(".")
        return (
            value if nonce and hmac.compare_digest(signature.encode(), self._sign("session", nonce).encode()) else None
        )

    def csrf_token(self, session: str) -> str:
        """What our own forms carry, and no other page can know."""
        return self._sign("csrf", session)

    def is_csrf_token(self, session: str | None, text: str) -> bool:
        return session is not None and hmac.compare_digest(
            text.encode("utf-8", "replace"), self._sign("csrf", session).encode()
        )

    def refuse(self, method: str, path: str, headers: Mapping[str, str]) -> Refusal | None:
        """Why the request may not go on; None when it may. Forms of pages are checked once more when they are read."""
        if not self._is_known_host(headers.get("host", "")):
            # Another name that leads here is how a foreign page would read what is only for this machine.
            return Refusal(status=403, text="this server answers only to the names of this machine, such as localhost")
        session = self.session(headers)
        shown = self.is_token(_bearer(headers))
        if self.needs_token and not shown and session is None and not path.startswith(OPEN_PATHS):
            return Refusal(status=401, text="a token is needed: send it as `Authorization: Bearer TOKEN`")
        if method in READING:
            return None
        if self._options.read_only and path != "/login":
            return Refusal(status=403, text="this server was started with --read-only")
        if not _is_own_page(headers):
            return Refusal(status=403, text="the request comes from another site")
        if path.startswith("/api/") and not shown and not self.is_csrf_token(session, headers.get(CSRF_HEADER, "")):
            return self._refuse_program(path, session, headers)
        return None

    def _refuse_program(self, path: str, session: str | None, headers: Mapping[str, str]) -> Refusal | None:
        """Why a program on this machine that shows no token may not change anything."""
        by_browser = any(name in headers for name in ("origin", "sec-fetch-site"))
        if self.needs_token or by_browser:
            return Refusal(status=403, text=f"the header {CSRF_HEADER} is missing or wrong")
        if session is None and _STARTS_CODE.fullmatch(path):
            # A request that is sent blindly, by a server that was made to send it, has no cookie of ours.
            return Refusal(status=403, text="a session is needed: load a page and send its cookie, or set a token")
        return None

    def _is_known_host(self, host: str) -> bool:
        # Where a token is asked for, a foreign page learns nothing; and a proxy in front has a name of its own.
        return not self._options.is_local or self.needs_token or _name_of(host) in LOOPBACK

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.new(self._key, f"{purpose}:{text}".encode(), sha256).hexdigest()


def _is_own_page(headers: Mapping[str, str]) -> bool:
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc.lower() == headers.get("host", "").lower()


def _name_of(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _bearer(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _cookies(text: str) -> dict[str, str]:
    try:
        return {name: morsel.value for name, morsel in SimpleCookie(text).items()}
    except CookieError:
        return {}
