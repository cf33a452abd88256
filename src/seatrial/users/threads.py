"""Foreign functions in threads of their own."""

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any


class ThreadRaised(Exception):
    """The call raised; SystemExit and the like are only carried, since an event loop would act on them."""

    def __init__(self, raised: BaseException) -> None:
        super().__init__(repr(raised))
        self.raised = raised


async def in_thread(call: Callable[[], Any]) -> Any:
    """What the call returns, from a daemon thread: one that never returns must not keep the process from ending."""
    import asyncio

    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, raised: BaseException | None) -> None:
        if future.done():  # cancelled meanwhile: the trial timed out
            return
        if raised is None:
            future.set_result(result)
        else:
            future.set_exception(ThreadRaised(raised))

    def work() -> None:
        result, raised = None, None
        try:
            result = call()
        except BaseException as error:
            raised = error
        try:
            loop.call_soon_threadsafe(settle, result, raised)
        except RuntimeError:  # the loop has closed: nobody waits for this any more
            return

    context = copy_context()
    threading.Thread(target=context.run, args=(work,), name="seatrial-user", daemon=True).start()
    return await future
