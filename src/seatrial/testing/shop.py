"""A shop for tests of adapters: tools, and a fake model without a network.

To test an adapter, build an agent of its framework with these tools, and with a model that calls `next_step`. The
contract knows what such an agent must do.
"""

import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from seatrial.model.struct import Struct


class ShopError(Exception):
    """A tool of the shop failed. The framework should report it to the agent."""


class ModelError(Exception):
    """The model failed. No framework can answer then."""


def lookup_order(order_id: str) -> str:
    """Find the parcel of an order."""
    return f"order {order_id} is in parcel P-{order_id}"


TRACKED: list[str] = []
"""The parcels that the real `track_parcel` was called for."""


def track_parcel(parcel_id: str) -> str:
    """Find the place where a parcel is."""
    TRACKED.append(parcel_id)
    return f"parcel {parcel_id} is in Hamburg"


def refund_order(order_id: str) -> str:
    """Pay an order back."""
    raise ShopError(f"order {order_id} was paid in cash")


CANCELLED: list[str] = []
"""The orders that the real `cancel_order` was called for."""


def cancel_order(order_id: str) -> str:
    """Cancel an order. In agents that wait for a person, this tool needs an approval."""
    CANCELLED.append(order_id)
    return f"order {order_id} is cancelled"


COURIER_SECONDS = 3.0
"""How long `wait_for_courier` must take: longer than the timeout of the contract."""


class Call(Struct, frozen=True, kw_only=True):
    """A tool call that the model wants."""

    name: str
    arguments: dict[str, Any]


def show_attachment(media_type: str, content: bytes | str) -> str:
    """An image or file as the model tells it, from its bytes, or from base64 with or without `data:` before it."""
    found = b64decode(content.rpartition(",")[2]) if isinstance(content, str) else content
    return f"[{media_type}, {len(found)} bytes]"


def next_step(conversation: Sequence[Mapping[str, Any]]) -> str | Call:
    """The model's next step: a reply or a tool call. Messages have a `role` and a `content`, both texts.

    Only messages of the roles user and tool are used. Attachments are texts, made by `show_attachment`.
    """
    said = [(message["role"], str(message["content"])) for message in conversation]
    last = max((place for place, (role, _) in enumerate(said) if role == "user"), default=-1)
    if last < 0:
        return "There is no question."
    results = [text for role, text in said[last:] if role == "tool"]
    request = said[last][1]
    attached = re.findall(r"\[\S+, \d+ bytes\]", " ".join(_latest_user_texts(said)))
    if attached:
        return f"I see {' and '.join(attached)}."
    if "break down" in request.lower():
        raise ModelError("the model is overloaded")
    order = re.search(r"order (\w+-\w+)", request)
    if "where is" in request.lower() and order:
        return _find(order[1], results)
    if "refund" in request.lower() and order:
        return f"No refund: {results[-1]}" if results else Call(name="refund_order", arguments={"order_id": order[1]})
    if "cancel" in request.lower() and order:
        return f"Noted: {results[-1]}" if results else Call(name="cancel_order", arguments={"order_id": order[1]})
    for word, call in _CALLS.items():
        if word in request.lower():
            return f"They say: {results[-1]}" if results else call
    return _small_talk(request, [text for role, text in said[:last] if role == "user"])


def next_steps(conversation: Sequence[Mapping[str, Any]]) -> str | list[Call]:
    """The same for a model that can make several calls at once: it looks up both orders together."""
    said = [(message["role"], str(message["content"])) for message in conversation]
    last = max((place for place, (role, _) in enumerate(said) if role == "user"), default=-1)
    if last >= 0 and "both orders" in said[last][1].lower():
        results = [text for role, text in said[last:] if role == "tool"]
        return f"I found {'; '.join(results)}." if results else list(BOTH)
    step = next_step(conversation)
    return step if isinstance(step, str) else [step]


BOTH = tuple(Call(name="lookup_order", arguments={"order_id": order}) for order in ("A-1", "B-2"))

_CALLS = {
    "courier": Call(name="wait_for_courier", arguments={}),
    "billing": Call(name="transfer_to_billing", arguments={}),
    "expert": Call(name="ask_expert", arguments={"question": "Where is order E-5?"}),
    "teleport": Call(name="teleport_parcel", arguments={"parcel_id": "P-A-1"}),
}
"""By a word in the request: the call to make. No agent has a tool `teleport_parcel`."""


def _latest_user_texts(said: Sequence[tuple[str, str]]) -> list[str]:
    """The texts at the end that are the user's: some frameworks have one for each part of a message."""
    return [text for _, text in reversed(list(takewhile(lambda message: message[0] == "user", reversed(said))))]


def _find(order: str, results: Sequence[str]) -> str | Call:
    if not results:
        return Call(name="lookup_order", arguments={"order_id": order})
    if len(results) == 1:
        parcel = re.search(r"P-[\w-]*\w", results[0])
        return Call(name="track_parcel", arguments={"parcel_id": parcel[0] if parcel else "unknown"})
    return f"Order {order}: {results[0]}; {results[1]}."


def _small_talk(request: str, earlier: Sequence[str]) -> str:
    if re.search(r"my name is (\w+)", request, re.IGNORECASE):
        return "Pleased to meet you."
    if "my name" in request.lower():
        names = [found[1] for text in earlier if (found := re.search(r"my name is (\w+)", text, re.IGNORECASE))]
        return f"You are {names[-1]}." if names else "You did not tell me your name."
    return "How can I help?"
