"""What a server was asked to be."""

from pathlib import Path

from seatrial.errors import UsageError
from seatrial.model.struct import Struct

LOOPBACK = ("127.0.0.1", "localhost", "::1")
SHORTEST_TOKEN = 16


class ServeOptions(Struct, frozen=True, kw_only=True):
    """Where the server listens, what it shows, and what it lets be done."""

    store: str
    """Where runs are kept."""
    root: Path
    """Suites in this folder may be run."""
    host: str = "127.0.0.1"
    port: int = 8321
    """0: any that is free."""
    token: str | None = None
    """Whoever shows it may do what the server can."""
    read_only: bool = False

    @property
    def is_local(self) -> bool:
        return self.host in LOOPBACK

    def check(self) -> None:
        """Raises UsageError where others could reach the server without a token."""
        if self.token is not None and (len(self.token) < SHORTEST_TOKEN or not self.token.isascii()):
            raise UsageError(
                f"--token: expected at least {SHORTEST_TOKEN} ASCII characters. "
                'Make one: python -c "import secrets; print(secrets.token_hex(16))"'
            )
        if not self.is_local and self.token is None:
            raise UsageError(
                f"--host {self.host}: others could reach the server there, so it needs a token: "
                "set SEATRIAL_TOKEN, or give --token TEXT"
            )
        if not self.root.is_dir():
            raise UsageError(f"{self.root}: is not a folder. Name the folder that has the suites.")
