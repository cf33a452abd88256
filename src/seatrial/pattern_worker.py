"""The process that matches slow patterns: `seatrial.patterns` runs it as a script, and nothing imports it.

Questions come on stdin, answers go to stdout, both encoded by `marshal`. The process ends when its parent closes stdin.
A match that exceeds the limit ends it with code 1; `faulthandler` does this without the interpreter's lock.
"""

import faulthandler
import marshal
import re
import signal
import sys
from typing import Any


def answer(pattern: str, text: str, flags: int, first: bool) -> Any:
    """The first match, or all of them; an error message if matching raises."""
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
