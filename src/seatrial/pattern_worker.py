"""The process that matches patterns which may need long: run as a script by `seatrial.patterns`, and never imported.

Questions come on stdin, answers go to stdout, both by `marshal`. It ends with its parent, which closes stdin. A match
that takes longer than the limit ends it with code 1, which needs no lock of the interpreter.
"""

import faulthandler
import marshal
import re
import signal
import sys
from typing import Any


def answer(pattern: str, text: str, flags: int, first: bool) -> Any:
    """The places of the first match or of all; a text where matching raises."""
    try:
        if first:
            found = re.search(pattern, text, flags)
            return [] if found is None else [found.span()]
        return [found.span() for found in re.finditer(pattern, text, flags)]
    except Exception as raised:
        return f"{type(raised).__name__}: {raised}"


def serve() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    sys.stdout.buffer.write(b".")
    sys.stdout.buffer.flush()
    while True:
        try:
            *question, seconds = marshal.load(sys.stdin.buffer)
        except EOFError:
            return
        faulthandler.dump_traceback_later(seconds, exit=True)
        said = answer(*question)
        faulthandler.cancel_dump_traceback_later()
        sys.stdout.buffer.write(marshal.dumps(said))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    serve()
