"""`LLM` asks models and validates their answers. `AnswerCache` stores answers on disk.

The cache has one file per answer, named by the hash of the question and written with a rename. Processes need no locks,
and a crash leaves no half answers. A file that cannot be read counts as missing.
"""

import json
import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

from seatrial.files import make_file, make_folder
from seatrial.model.results import ModelUse, sum_model_use

from .model import Answer, ChatMessage, ModelFailure, ModelSpec, Question
from .pydantic_ai_backend import Reply, RequestFailed, open_client, open_model, send
from .structured import Malformed, instructions, json_schema, load_reader, parse_answer, repair_request

if TYPE_CHECKING:
    import asyncio

    from httpx2 import AsyncClient
    from pydantic_ai.models import Model


_FORM = 1
"""Part of every key. Raise it when the form of prompts or cache files changes."""


def cache_key(question: Question[Any], *, system: str) -> str:
    """The hash of everything that is sent, and of the salt."""
    import hashlib

    parts = [
        _FORM,
        question.model.identity,
        system,
        question.messages,
        json_schema(question.schema),
        question.salt,
        *(each.hash for each in question.attachments),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


class AnswerCache:
    """The answers in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._warned = False

    def get(self, key: str) -> tuple[str, str] | None:
        """(text, model) of the answer, or None."""
        try:
            entry = json.loads(self._path(key).read_text("utf-8"))
            raw, model = entry["raw"], entry["model"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return (raw, model) if isinstance(raw, str) and isinstance(model, str) else None

    def put(self, key: str, *, raw: str, model: str) -> None:
        """Store an answer. Warns once if the folder cannot be written."""
        path = self._path(key)
        try:
            make_folder(path.parent)
            _replace(path, json.dumps({"raw": raw, "model": model}, ensure_ascii=False))
        except OSError as error:
            if not self._warned:
                self._warned = True
                warnings.warn(f"answers cannot be cached in {self.folder}: {error}", stacklevel=2)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"


def _replace(path: Path, text: str) -> None:
    # Not tempfile: importing it slows down every run. Process and thread make the name unique.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        make_file(temporary)
        temporary.write_text(text, "utf-8")
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


T = TypeVar("T")

_SHOWN = 500
"""Characters of an unreadable answer in the error."""
_LONGEST_WAIT = 60.0
"""Seconds. A provider that asks for more is not waited for."""


def full_system(question: Question[Any]) -> str:
    """The system prompt that is sent: what the question says, and the form of the answer."""
    return f"{question.system}\n\n{instructions(question.schema)}"


class _Spending:
    """The use and the failed requests of one question so far."""

    def __init__(self) -> None:
        self.use = ModelUse()
        self.failures = 0

    def add(self, use: ModelUse) -> None:
        self.use = sum_model_use((self.use, use))


class LLM:
    """Asks models on behalf of simulated users and judges. One per run; close it when the run ends."""

    def __init__(
        self,
        *,
        cache: Path | None = None,
        concurrency: int = 20,
        backoff: float = 0.5,
        before_request: Callable[[ModelUse], None] | None = None,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, got {concurrency!r}")
        self._cache = AnswerCache(cache) if cache is not None else None
        self._concurrency = concurrency
        """Requests in flight, per provider and address."""
        self._backoff = backoff
        """Seconds before the first retry; doubled each time."""
        self._before_request = before_request
        """Gets the totals before each request and may raise, e.g. when a budget is spent."""
        self._total = ModelUse()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: AsyncClient | None = None
        self._models: dict[tuple[str, str | None], Model] = {}
        self._slots: dict[tuple[str, str | None], asyncio.Semaphore] = {}
        self._opening: asyncio.Lock | None = None
        load_reader()

    async def ask(self, question: Question[T]) -> Answer[T]:
        """The model's answer, validated. Raises ModelFailure when there is none."""
        system = full_system(question)
        key = cache_key(question, system=system)
        known = self._recall(question, key)
        if known is not None:
            return known
        spending = _Spending()
        reply, value = await self._converse(question, system, spending)
        if self._cache is not None:
            self._cache.put(key, raw=reply.text, model=reply.model)
        return Answer(value=value, use=spending.use, raw=reply.text, model=reply.model)

    def totals(self) -> ModelUse:
        """The use of all questions so far."""
        return self._total

    async def close(self) -> None:
        """End the connections."""
        client, self._client = self._client, None
        self._models.clear()
        if client is not None:
            await client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _converse(self, question: Question[T], system: str, spending: _Spending) -> tuple[Reply, T]:
        """The final reply and its value. Asks again once if it is malformed, and once if it is incomplete."""
        messages = question.messages
        repaired = completed = False
        while True:
            reply = await self._request(question, system, messages, spending)
            try:
                return reply, _read(question, question.schema, reply.text, cut_off=reply.cut_off)
            except Malformed as malformed:
                problem = malformed
            try:
                incomplete = _read(question, question.fallback, reply.text, cut_off=reply.cut_off)
            except Malformed:
                if repaired:
                    said = f"{reply.text[:_SHOWN]}…" if len(reply.text) > _SHOWN else reply.text
                    reason = f"answered with something unreadable, twice: {problem}. Its last answer: {said!r}"
                    _give_up(question, reason, spending)
                repaired = True
            else:
                if completed:
                    return reply, incomplete
                completed = True
            messages = _with_repair(messages, reply, problem)

    def _recall(self, question: Question[T], key: str) -> Answer[T] | None:
        entry = self._cache.get(key) if self._cache is not None else None
        if entry is None:
            return None
        raw, model = entry
        for form in (question.schema, question.fallback):
            try:
                value = _read(question, form, raw)
            except Malformed:
                continue
            use = ModelUse(cached=1, cost_usd=0.0)
            self._total = sum_model_use((self._total, use))
            return Answer(value=value, use=use, raw=raw, model=model)
        return None

    async def _request(
        self, question: Question[Any], system: str, messages: tuple[ChatMessage, ...], spending: _Spending
    ) -> Reply:
        """A reply. Repeats failed requests as often as the question allows."""
        import asyncio

        while True:
            try:
                reply = await self._send(question, system, messages)
            except RequestFailed as failed:
                self._count(failed.use, spending)
                spending.failures += 1
                if failed.final or spending.failures >= question.most_failures:
                    _give_up(question, str(failed), spending, cause=failed)
                wait = self._wait(failed, spending.failures)
                if wait > _LONGEST_WAIT:
                    _give_up(question, f"{failed}; it asks to wait {wait:g} s", spending, cause=failed)
            else:
                self._count(reply.use, spending)
                return reply
            await asyncio.sleep(wait)

    async def _send(self, question: Question[Any], system: str, messages: tuple[ChatMessage, ...]) -> Reply:
        model, slot = await self._open(question.model)
        async with slot:
            if self._before_request is not None:
                self._before_request(self._total)
            return await send(
                model,
                question.model,
                system=system,
                messages=messages,
                attachments=question.attachments,
                schema=question.schema,
                timeout=question.seconds,
            )

    async def _open(self, spec: ModelSpec) -> "tuple[Model, asyncio.Semaphore]":
        import asyncio

        loop = asyncio.get_running_loop()
        if loop is not self._loop or self._opening is None:
            # Connections, locks and semaphores belong to the loop that made them.
            self._loop, self._client, self._opening = loop, None, asyncio.Lock()
            self._models.clear()
            self._slots.clear()
        who = (spec.identity, spec.api_key)
        async with self._opening:
            if who not in self._models:
                # In a thread: importing an SDK takes seconds, which must not count as time of the agents.
                if self._client is None:
                    self._client = await asyncio.to_thread(open_client)
                self._models[who] = await asyncio.to_thread(open_model, spec, self._client)
        where = (spec.provider, spec.base_url)
        if where not in self._slots:
            self._slots[where] = asyncio.Semaphore(self._concurrency)
        return self._models[who], self._slots[where]

    def _count(self, use: ModelUse, spending: _Spending) -> None:
        spending.add(use)
        self._total = sum_model_use((self._total, use))

    def _wait(self, failed: RequestFailed, failures: int) -> float:
        if failed.wait is not None:
            return failed.wait
        import random

        # Random, so that trials that failed together do not retry together.
        return min(self._backoff * 2.0 ** (failures - 1), 30.0) * random.uniform(0.5, 1.0)


def _read(question: Question[T], form: type[T] | None, text: str, *, cut_off: bool = False) -> T:
    """The value of an answer. A judge's answer is also compared with what the judge read. Raises Malformed."""
    if form is None:
        raise Malformed("there is no other form")
    transcript = "\n".join(said for _, said in question.messages) if question.role == "judge" else None
    return parse_answer(text, form, cut_off=cut_off, transcript=transcript)


def _with_repair(messages: tuple[ChatMessage, ...], reply: Reply, problem: Malformed) -> tuple[ChatMessage, ...]:
    # Providers refuse empty messages, so an empty answer is not repeated.
    said: tuple[ChatMessage, ...] = (("assistant", reply.text),) if reply.text.strip() else ()
    return (*messages, *said, ("user", repair_request(problem)))


def _give_up(question: Question[Any], reason: str, spending: _Spending, *, cause: Exception | None = None) -> NoReturn:
    message = f"{question.model.label}: {reason}"
    raise ModelFailure(message, attempts=spending.use.calls, use=spending.use) from cause
