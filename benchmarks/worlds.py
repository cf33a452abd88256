"""How long a world of 5 MB takes: one copy of its seed, and 300 recorded conversations that run again.

python benchmarks/worlds.py [--conversations 300] [--megabytes 5]
"""

import argparse
import asyncio
import json
import time

from seatrial.model.conversation import PlayedTurn, StopReason, ToolCall, Transcript
from seatrial.tools.world import PreparedWorld, Seed
from seatrial.tools.world_tools import read_world_tools


def make_seed(megabytes: float) -> Seed:
    """Orders, until their JSON has this size."""
    options = {"size": "L", "color": "blue"}
    items = [{"item": f"item-{place}", "price": 10.5 * place, "options": options} for place in range(5)]
    order = {"status": "delivered", "items": items, "address": {"street": "1 Main Street", "city": "Springfield"}}
    count = int(megabytes * 1_000_000 / len(json.dumps({"W1000": order})))
    return Seed({"orders": {f"W{number}": order for number in range(count)}})


def lookup(state, order_id: str):
    return state["orders"][order_id]


def cancel(state, order_id: str):
    state["orders"][order_id]["status"] = "cancelled"
    return "done"


def conversation(number: int) -> Transcript:
    order = {"order_id": f"W{number}"}
    calls = (*[ToolCall("lookup", order)] * 5, ToolCall("cancel", order))
    turn = PlayedTurn(index=0, user="Cancel it", reply="Done", tool_calls=calls)
    return Transcript(turns=(turn,), stop_reason=StopReason.SCRIPT_ENDED)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--conversations", type=int, default=300)
    parser.add_argument("--megabytes", type=float, default=5.0)
    asked = parser.parse_args()
    seed = make_seed(asked.megabytes)
    copies = []
    for _ in range(10):
        began = time.process_time()
        state = seed.copy()
        copies.append(time.process_time() - began)
        del state
    print(f"a copy of the seed: {1000 * sorted(copies)[5]:.0f} ms of CPU time (median of 10; limit 60)")
    world = PreparedWorld(seed=seed, tools=read_world_tools([lookup, cancel]))
    began, began_cpu = time.perf_counter(), time.process_time()
    for number in range(asked.conversations):
        played = await world.reenact(conversation(number))
        assert played.world is not None
        assert len(played.world.changes) == 1
    took, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    print(f"{asked.conversations} conversations: {cpu:.1f} s of CPU time, {took:.1f} s in all (limit 60)")


asyncio.run(main())
