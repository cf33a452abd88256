"""Long conversations, and very many at once, through the `openai` agent against a server in a process of its own.

First: 100 conversations of 20 turns with two tool calls each. Every conversation has a nonce that goes through user,
agent and mocks; the server, the mocks, the user and the expectations all check it, so that no message can be lost or
crossed. Beside it a bare loop with the same client library sends the same requests and checks nothing.

Second: 2,000 conversations in flight at once, by the server's own count, and an interrupt in the midst of them.

    python benchmarks/conversations.py [--rounds 3]
"""

import argparse
import asyncio
import json
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CONVERSATIONS, TURNS, IN_FLIGHT, FINISHED = 100, 20, 2_000, 500
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
MOST_TIMES, MOST_MB, MOST_SECONDS = 3.0, 400.0, 3.0

MINE = """
    async def user(conversation, trial, seed):
        nonce = f"N{trial}-{seed}"
        for turn, (said, reply) in enumerate(conversation):
            assert said == f"{nonce} turn {turn}", (said, nonce)
            assert reply == f"{nonce} turn {turn}: one {nonce}, two {nonce}", (reply, nonce)
        return f"{nonce} turn {len(conversation)}"

    async def tool(args, ctx):
        nonce = ctx.state.setdefault("nonce", args["nonce"])
        assert nonce == args["nonce"], (nonce, args)
        assert nonce == f"N{int(ctx.trial_id.rsplit('-', 1)[1]) - 1}-{ctx.seed}", (nonce, ctx)
        return {"nonce": nonce, "call": ctx.call_index}
"""

FLOOR = f"""
    import asyncio, json, sys
    import httpx2

    async def converse(client, url, number):
        messages, nonce = [], f"N{{number}}-0"
        for turn in range({TURNS}):
            messages.append({{"role": "user", "content": f"{{nonce}} turn {{turn}}"}})
            while True:
                response = await client.post(url, json={{"messages": messages}})
                message = response.json()["choices"][0]["message"]
                messages.append(message)
                if not message.get("tool_calls"):
                    break
                for call in message["tool_calls"]:
                    arguments = json.loads(call["function"]["arguments"])
                    content = json.dumps({{"nonce": arguments["nonce"], "call": turn}})
                    messages.append({{"role": "tool", "tool_call_id": call["id"], "content": content}})

    async def main():
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
        async with httpx2.AsyncClient(timeout=60, limits=limits, trust_env=False) as client:
            await asyncio.gather(*(converse(client, sys.argv[1], number) for number in range({CONVERSATIONS})))

    asyncio.run(main())
"""


class Server:
    """Answers chat completions, checks that each conversation is whole and unmixed, and counts."""

    def __init__(self) -> None:
        self.in_flight = self.most = self.answered = 0
        self.problems: list[str] = []
        self.hold_from = sys.maxsize
        """Conversations from this number on are never answered."""
        self.hold_until = 0
        """Hold all until so many are in flight, then let all go."""
        self.full = asyncio.Event()
        self.seconds = 0.0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].partition(b"\r")[0] or 0)
                body = await reader.readexactly(length)
                answer = self.control(head) if head.startswith(b"get") else await self.complete(body)
                text = json.dumps(answer).encode()
                writer.write(HEAD % len(text) + text)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def control(self, head: bytes) -> Any:
        """`GET /KEY=VALUE` sets something; any GET tells how things stand."""
        key, equals, value = head.split()[1].strip(b"/").decode().partition("=")
        if equals:
            self.most = self.answered = 0
            self.seconds = 0.0
            self.full.clear()
            setattr(self, key, int(value))
        return {name: getattr(self, name) for name in ("in_flight", "most", "answered", "problems", "seconds")}

    async def complete(self, body: bytes) -> Any:
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            messages = json.loads(body)["messages"]
            if int(messages[0]["content"].partition("-")[0].removeprefix("N")) >= self.hold_from:
                await asyncio.Event().wait()
            if self.in_flight >= self.hold_until:
                self.full.set()
            await self.full.wait()
            self.answered += 1
            began = time.perf_counter()
            message = self.reply(messages)
            self.seconds += time.perf_counter() - began
            return {"choices": [{"message": message}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
        finally:
            self.in_flight -= 1

    def reply(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """What the agent says next; five messages make a turn: user, calls, two results, reply."""
        nonce = messages[0]["content"].split()[0]
        turn, place = divmod(len(messages) - 1, 5)
        roles = [message["role"] for message in messages]
        expected = (["user", "assistant", "tool", "tool", "assistant"] * (turn + 1))[: len(messages)]
        strange = [m for m in messages if nonce not in json.dumps(m)]
        if roles != expected or strange or messages[turn * 5]["content"] != f"{nonce} turn {turn}":
            self.problems.append(f"{nonce}: {roles[-5:]} {strange[:1]}")
        if place == 0:
            calls = [
                {"id": f"{name}{turn}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
                for name in ("one", "two")
                for given in [{"nonce": nonce, "turn": turn}]
            ]
            return {"role": "assistant", "content": f"calling for {nonce}", "tool_calls": calls}
        one, two = (json.loads(message["content"])["nonce"] for message in messages[-2:])
        return {"role": "assistant", "content": f"{nonce} turn {turn}: one {one}, two {two}"}


async def serve_forever() -> None:
    server = await asyncio.start_server(Server().serve, "127.0.0.1", 0, backlog=4096, limit=2**24)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def measure(command: list[str], folder: Path) -> tuple[float, float, float, int]:
    """(wall seconds, CPU seconds, peak MB, exit code) of a command."""
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=(folder / "stderr").open("w"))
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - started
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, process.returncode


def cpu_of(pid: int) -> float:
    """CPU seconds that a process has taken so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Bench:
    def __init__(self, port: int, folder: Path) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.folder = folder
        self.runs = 0
        for name, text in (("mine.py", MINE), ("floor.py", FLOOR)):
            (folder / name).write_text("\n".join(line[4:] for line in text.splitlines()), encoding="utf-8")

    def ask(self, what: str = "") -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/{what}") as response:
            told: dict[str, Any] = json.load(response)
        return told

    def seatrial(self, *, trials: int, turns: int, concurrency: int) -> list[str]:
        self.runs += 1
        mocks = {name: {"python": "mine:tool"} for name in ("one", "two")}
        config = {"concurrency": concurrency, "mocks": mocks, "default_timeout": 120, "seed": 7}
        expected = [{"name": name, "count": turns} for name in mocks]
        scenario = {
            "name": "nonce",
            "user": "mine:user",
            "trials": trials,
            "max_turns": turns,
            "trajectory": {"mode": "contains", "expected": expected},
            "limits": {"turns": turns},
        }
        suite = {"name": "bench", "agent": {"type": "openai", "base_url": self.url}, "config": config}
        (self.folder / "suite.json").write_text(json.dumps({"suite": suite, "scenarios": [scenario]}))
        store = f"runs{self.runs}.db"
        return [sys.executable, "-m", "seatrial", "run", "suite.json", "--store", store]

    def kept(self) -> int:
        with sqlite3.connect(self.folder / f"runs{self.runs}.db") as store:
            return int(store.execute("SELECT count(*) FROM trials").fetchone()[0])

    def measure_long(self, rounds: int) -> tuple[list[float], list[float]]:
        """Medians of (wall seconds, CPU seconds, peak MB): the bare loop's, and ours."""
        self.ask("hold_until=0")
        floors, ours = [], []
        for _ in range(rounds):
            floors.append(measure([sys.executable, "floor.py", f"{self.url}/chat/completions"], self.folder))
            command = self.seatrial(trials=CONVERSATIONS, turns=TURNS, concurrency=CONVERSATIONS)
            ours.append(measure(command, self.folder))
            errors = (self.folder / "stderr").read_text()
            assert (floors[-1][3], ours[-1][3]) == (0, 0), errors
            assert self.kept() == CONVERSATIONS
        told = self.ask()
        assert told["answered"] == 2 * rounds * CONVERSATIONS * TURNS * 2, told
        assert not told["problems"], told["problems"][:3]
        floor, seatrial = ([statistics.median(row[n] for row in rows) for n in range(3)] for rows in (floors, ours))
        return floor, seatrial

    def long_conversations(self, rounds: int) -> None:
        floor, seatrial = self.measure_long(rounds)
        for name, (wall, cpu, peak) in (("bare loop", floor), ("seatrial", seatrial)):
            print(f"{name:10} wall {wall:6.2f} s   cpu {cpu:6.2f} s   peak {peak:6.1f} MB")
        times = [ours / bare for ours, bare in zip(seatrial[:2], floor[:2], strict=True)]
        print(f"ratio      wall {times[0]:6.2f}     cpu {times[1]:6.2f}   (at most {MOST_TIMES:g})")
        print(f"           the server itself took {self.ask()['seconds'] / rounds / 2:.2f} s of each")
        assert max(times) <= MOST_TIMES

    def many_at_once(self) -> None:
        self.ask(f"hold_until={IN_FLIGHT}")
        wall, cpu, peak, code = measure(self.seatrial(trials=IN_FLIGHT, turns=1, concurrency=IN_FLIGHT), self.folder)
        told = self.ask()
        print(f"{told['most']:,} in flight: wall {wall:.2f} s, cpu {cpu:.2f} s, peak {peak:.1f} MB (under {MOST_MB:g})")
        assert code == 0, (self.folder / "stderr").read_text()[-2000:]
        assert told["most"] >= IN_FLIGHT
        assert not told["problems"]
        assert peak < MOST_MB

    def interrupt(self) -> None:
        self.ask("hold_until=0")
        self.ask(f"hold_from={FINISHED}")
        command = self.seatrial(trials=IN_FLIGHT + FINISHED, turns=1, concurrency=IN_FLIGHT)
        with (self.folder / "stderr").open("w") as stderr:
            process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=stderr)
        while (told := self.ask())["in_flight"] < IN_FLIGHT and process.poll() is None:
            time.sleep(0.05)
        began, used = time.perf_counter(), cpu_of(process.pid)
        process.send_signal(signal.SIGINT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        took, cpu = time.perf_counter() - began, usage.ru_utime + usage.ru_stime - used
        print(
            f"Ctrl-C with {told['in_flight']:,} in flight: ended in {took:.2f} s ({cpu:.2f} s of CPU), "
            f"{self.kept():,} trials kept"
        )
        assert process.returncode == 130, (self.folder / "stderr").read_text()[-2000:]
        assert took <= MOST_SECONDS
        assert self.kept() == FINISHED


@contextmanager
def serving() -> Iterator[Bench]:
    """A bench whose server runs in a process of its own."""
    server = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        with tempfile.TemporaryDirectory() as name:
            yield Bench(int(server.stdout.readline()), Path(name))
    finally:
        server.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("long", "many", "interrupt"))
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve_forever())
    with serving() as bench:
        parts = {
            "long": lambda: bench.long_conversations(options.rounds),
            "many": bench.many_at_once,
            "interrupt": bench.interrupt,
        }
        for part, play in parts.items():
            if options.only in (None, part):
                play()


if __name__ == "__main__":
    main()
