"""Two versions of a booking agent, tried with the same scenarios: `make demo`.

No key, no service, no network. Runs are kept in .seatrial, as always. Exit code 0 when the demo went as it should: the
first version passes, the second one does not.
"""

import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUITE = "examples/booking/scenarios.yaml"
SECOND = "{type: python, target: examples.booking.agent_v2:answer, tools: all_wrapped}"


def say(text: str = "") -> None:
    print(text, flush=True)


def seatrial(*args: str) -> int:
    """Show the command, run it, and give its exit code."""
    say(f"$ {shlex.join(['seatrial', *args])}")
    # Progress goes to stderr, and only matters where there is something to wait for.
    done = subprocess.run(
        [sys.executable, "-m", "seatrial", *args], cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False
    )
    if done.returncode == 2:
        say(done.stderr)
    say(f"(exit code {done.returncode})\n")
    return done.returncode


def main() -> int:
    say("A booking agent, and what it must do: examples/booking/scenarios.yaml\n")
    first = seatrial("run", SUITE, "--name", "booking-v1")
    say("The second version sounds nicer. Does it still do its work?\n")
    second = seatrial("run", SUITE, "--agent", SECOND, "--name", "booking-v2")
    say("It says that the booking is moved, and moves nothing. One of the trials, word for word:\n")
    shown = seatrial("show", "booking-v2", "moves a booking", "1")
    command = Path(sys.executable).with_name("seatrial")
    command = command.relative_to(ROOT) if command.is_relative_to(ROOT) else command
    say("Where to look next:")
    say(f"  {command} show                # the last run again; --verbose for every word")
    say(f"  {command} list runs           # all runs that are kept")
    say("  examples/booking/             # the two agents and the scenarios")
    say(f"  {command} init my-trials      # a small suite of your own")
    as_meant = (first, second, shown) == (0, 1, 0)
    if not as_meant:
        say(f"\nThe demo did not go as meant: exit codes {first}, {second} and {shown} instead of 0, 1 and 0.")
    return 0 if as_meant else 1


if __name__ == "__main__":
    sys.exit(main())
