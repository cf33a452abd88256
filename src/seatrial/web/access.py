"""Who may use the server: its options, tokens, sessions and CSRF tokens."""

import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from math import ceil
from pathlib import Path
from urllib.parse import urlsplit

from seatrial.clock import now
from seatrial.errors import UsageError
from seatrial.model.struct import Struct

LOOPBACK = ("127.0.0.1", "localhost", "::1")
SHORTEST_TOKEN = 16


class ServeOptions(Struct, frozen=True, kw_only=True):
    """Where the server listens, what it shows and what it allows."""

    store: str
    """Where runs are stored."""
    root: Path
    """Suites in this folder can be run."""
    host: str = "127.0.0.1"
    port: int = 8321
    """0: any free port."""
    token: str | None = None
    """Clients that send it may use the server."""
    read_only: bool = False

    @property
    def is_local(self) -> bool:
        return self.host in LOOPBACK

    def check(self) -> None:
        """Raises UsageError for an unsafe token, host or folder."""
        if self.token is not None and (len(self.token) < SHORTEST_TOKEN or not self.token.isascii()):
            raise UsageError(
                f"--token: expected at least {SHORTEST_TOKEN} ASCII characters. "
                'Make one: python -c "import secrets; print(secrets.token_hex(16))"'
            )
        if not self.is_local and self.token is None:
            raise UsageError(
                f"--host {self.host}: other machines can reach this address, so a token is required: "
                "set SEATRIAL_TOKEN, or give --token TEXT"
            )
        if not self.root.is_dir():
            raise UsageError(f"{self.root}: is not a folder. Give the folder that contains the suites.")


COOKIE = "seatrial_session"
CSRF_HEADER = "x-csrf-token"
READING = ("GET", "HEAD", "OPTIONS")
OPEN_PATHS = ("/login", "/static/")
_STARTS_CODE = re.compile(r"/api/runs(/[^/]+/resume)?")


SESSION_SECONDS = 12 * 3600
_FREE_GUESSES = 5
_LONGEST_WAIT = 60
_FORGOTTEN_AFTER = 900.0
_MOST_GUESSERS = 10_000


class Refusal(Struct, frozen=True, kw_only=True):
    """Why a request is refused."""

    status: int
    text: str
    retry_after: int | None = None
    """Seconds."""


class _Guesses(Struct, frozen=True, kw_only=True):
    """Wrong tokens from one address."""

    count: int
    at: float

    @property
    def wait(self) -> int:
        """Seconds between two tries: first none, then 1, 2, 4 and so on."""
        over = self.count - _FREE_GUESSES
        return min(2 ** (over - 1), _LONGEST_WAIT) if over > 0 else 0


class Access:
    """Checks requests by method, path and headers, before any other code sees them."""

    def __init__(self, options: ServeOptions, *, clock: Callable[[], float] = lambda: now().timestamp()) -> None:
        self._options = options
        self._clock = clock
        # New at each start: sessions are known to this process only.
        self._key = secrets.token_bytes(32)
        self._ended: dict[str, float] = {}
        self._guesses: dict[str, _Guesses] = {}

    @property
    def needs_token(self) -> bool:
        return self._options.token is not None

    def check_token(self, text: str, address: str) -> bool:
        """Whether it is the token, in constant time. Counts wrong tokens by address."""
        token = self._options.token or ""
        is_right = bool(token) and hmac.compare_digest(text.encode("utf-8", "replace"), token.encode())
        known = self._guesses.pop(address, None)
        if not is_right:
            self._guesses[address] = _Guesses(count=1 if known is None else known.count + 1, at=self._clock())
            if len(self._guesses) > _MOST_GUESSERS:
                del self._guesses[next(iter(self._guesses))]
        return is_right

    def seconds_to_wait(self, address: str) -> int:
        """How long tokens from the address are refused after many wrong ones."""
        known = self._guesses.get(address)
        if known is None:
            return 0
        since = self._clock() - known.at
        if since > _FORGOTTEN_AFTER:
            self._guesses.pop(address, None)
            return 0
        return max(0, ceil(known.wait - since))

    def new_session(self) -> str:
        """A signed cookie value, valid for twelve hours."""
        session = f"{secrets.token_urlsafe(18)}.{self._clock():.0f}"
        return f"{session}.{self._sign('session', session)}"

    def session(self, headers: Mapping[str, str]) -> str | None:
        """The session of the request's cookie; None if there is no valid one."""
        value = _cookies(headers.get("cookie", "")).get(COOKIE, "")
        session, _, signature = value.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._sign("session", session).encode()):
            return None
        is_over = self._clock() - float(session.rpartition(".")[2]) > SESSION_SECONDS
        return None if is_over or value in self._ended else value

    def end_session(self, session: str) -> None:
        """Make the session invalid."""
        time = self._clock()
        self._ended = {one: at for one, at in self._ended.items() if time - at <= SESSION_SECONDS}
        self._ended[session] = time

    def csrf_token(self, session: str) -> str:
        """The token in our forms, which other sites cannot know."""
        return self._sign("csrf", session)

    def is_csrf_token(self, session: str | None, text: str) -> bool:
        return session is not None and hmac.compare_digest(
            text.encode("utf-8", "replace"), self._sign("csrf", session).encode()
        )

    def refuse(self, method: str, path: str, headers: Mapping[str, str], *, address: str = "") -> Refusal | None:
        """Why the request is refused; None if it is allowed. The CSRF tokens of forms are checked later."""
        if not self._is_known_host(headers.get("host", "")):
            # DNS rebinding: another site uses a name that resolves to this machine.
            return Refusal(status=403, text="this server accepts only host names of this machine, such as localhost")
        session = self.session(headers)
        given = _bearer(headers) if self.needs_token else ""
        wait = self.seconds_to_wait(address) if given else 0
        if wait:
            return Refusal(
                status=429, text=f"too many wrong tokens from this address. {try_again(wait)}", retry_after=wait
            )
        shown = bool(given) and self.check_token(given, address)
        if self.needs_token and not shown and session is None and not path.startswith(OPEN_PATHS):
            return Refusal(status=401, text="a token is required: send `Authorization: Bearer TOKEN`")
        if method in READING:
            return None
        if self._options.read_only and path not in ("/login", "/logout"):
            return Refusal(status=403, text="this server was started with --read-only")
        if not _is_own_page(headers):
            return Refusal(status=403, text="the request comes from another site")
        if path.startswith("/api/") and not shown and not self.is_csrf_token(session, headers.get(CSRF_HEADER, "")):
            return self._refuse_program(path, session, headers)
        return None

    def _refuse_program(self, path: str, session: str | None, headers: Mapping[str, str]) -> Refusal | None:
        """Why a change by a program on this machine without a token is refused."""
        by_browser = any(name in headers for name in ("origin", "sec-fetch-site"))
        if self.needs_token or by_browser:
            return Refusal(status=403, text=f"the header {CSRF_HEADER} is missing or wrong")
        if session is None and _STARTS_CODE.fullmatch(path):
            # A forged request of another server has no cookie of ours.
            return Refusal(status=403, text="a session is required: load a page and send its cookie, or use a token")
        return None

    def _is_known_host(self, host: str) -> bool:
        # With a token the name does not matter, and a proxy has its own name.
        return not self._options.is_local or self.needs_token or _name_of(host) in LOOPBACK

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.new(self._key, f"{purpose}:{text}".encode(), sha256).hexdigest()


def try_again(seconds: int) -> str:
    return f"Try again in {seconds} s."


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
