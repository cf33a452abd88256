"""Addresses and headers of agents: checked before anything is sent, shown without what may be secret."""

import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from seatrial.errors import UsageError


def check_url(url: Any, *, where: str) -> str:
    """The address, once it is known to be one."""
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        valid = parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or re.search(r"[\x00-\x20]", url):
        raise UsageError(f"{where}: expected an address such as http://localhost:8000/v1, got {url!r}")
    return str(url)


def check_headers(headers: Any, *, where: str) -> dict[str, str]:
    """The headers, once each can be sent. Values may be secrets, so no message shows one."""
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
    """The address without what may be secret: a user's name and password, the query."""
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
