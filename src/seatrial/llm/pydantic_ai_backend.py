"""Requests to models with pydantic-ai: one request, one reply; its exceptions become RequestFailed.

Retries of the SDKs are switched off: only client.py decides how often a model is asked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from seatrial.errors import UsageError
from seatrial.model.content import Attachment
from seatrial.model.results import ModelUse

from .model import ChatMessage, ModelSpec
from .providers import cost_of, key_of, usage_of
from .structured import json_schema

if TYPE_CHECKING:
    from httpx2 import AsyncClient
    from pydantic_ai.exceptions import ModelAPIError
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

_NO_KEY = "api-key-not-set"
"""For the user's own servers that need no key; the SDKs require one."""
_SHOWN = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The reply to one request."""

    text: str
    model: str
    use: ModelUse
    cut_off: bool = False
    """The model stopped before the end of its answer."""


class RequestFailed(Exception):
    """One request failed."""

    def __init__(self, reason: str, *, final: bool = False, wait: float | None = None, billed: bool = False) -> None:
        super().__init__(reason)
        self.final = final
        """Asking again would not help."""
        self.wait = wait
        """Seconds the provider asked us to wait."""
        # A request that timed out may be billed: its cost is unknown, not zero.
        self.use = ModelUse(calls=1, cost_usd=None if billed else 0.0)


def open_client() -> "AsyncClient":
    """The HTTP client of all models of a run."""
    from pydantic_ai.models import create_async_httpx2_client

    return create_async_httpx2_client()


def open_model(spec: ModelSpec, http_client: "AsyncClient") -> "Model":
    """The pydantic-ai model behind a spec."""
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.models import infer_model
    from pydantic_ai.providers import infer_provider_class

    given: dict[str, Any] = {"http_client": http_client, "api_key": key_of(spec)}
    if spec.base_url is not None:
        given.update(base_url=spec.base_url, api_key=given["api_key"] or _NO_KEY)
    if spec.provider == "openai" and spec.base_url is not None:
        return _open_compatible(spec, given)
    # Chat completions, not Responses: every OpenAI model and every compatible server has it.
    kind = "openai-chat" if spec.provider == "openai" else spec.provider
    try:
        provider = cast(Any, infer_provider_class(kind))(**given)
        return infer_model(f"{kind}:{spec.name}", provider_factory=lambda _: provider)
    except UserError as error:
        raise UsageError(f"model {spec.label!r}: {error}") from error


def _open_compatible(spec: ModelSpec, given: dict[str, Any]) -> "Model":
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    # Many such servers ignore the new name of max_tokens: a small model then writes until its context is full.
    new_name = "api.openai.com" in given["base_url"]
    profile = OpenAIModelProfile(openai_chat_supports_max_completion_tokens=new_name)
    return OpenAIChatModel(spec.name, provider=OpenAICompatibleProvider("openai-compatible", **given), profile=profile)


async def send(
    model: "Model",
    spec: ModelSpec,
    *,
    system: str,
    messages: Sequence[ChatMessage],
    schema: type[Any],
    timeout: float,
    attachments: Sequence[Attachment] = (),
) -> Reply:
    """The model's reply to one request. Raises RequestFailed."""
    from pydantic_ai.direct import model_request
    from pydantic_ai.exceptions import AgentRunError, ModelAPIError, UserError

    settings = cast("ModelSettings", {**spec.settings, "max_retries": 0, "request_timeout": timeout})
    try:
        response = await model_request(
            model,
            _history(system, messages, attachments),
            model_settings=settings,
            model_request_parameters=_parameters(spec, schema),
        )
    except ModelAPIError as error:
        raise _failure(error, timeout=timeout, address=model.base_url or spec.base_url) from error
    except UserError as error:
        raise RequestFailed(str(error)[:_SHOWN], final=True) from error
    except AgentRunError as error:
        raise RequestFailed(f"unexpected response: {str(error)[:_SHOWN]}", billed=True) from error
    except IndexError as error:  # pydantic-ai takes the first choice of a completion without choices
        raise RequestFailed("unexpected response: a completion without an answer", billed=True) from error
    use = ModelUse(calls=1, usage=usage_of(response), cost_usd=cost_of(response, price=spec.price))
    cut_off = response.finish_reason in ("length", "content_filter", "error")
    # Half an emoji cannot be stored or sent, but it can as a JSON escape.
    text = (response.text or "").encode("utf-8", "backslashreplace").decode()
    return Reply(text=text, model=response.model_name or spec.name, use=use, cut_off=cut_off)


def _history(
    system: str, messages: Sequence[ChatMessage], attachments: Sequence[Attachment] = ()
) -> "list[ModelMessage]":
    from pydantic_ai.messages import (
        BinaryContent,
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        UserPromptPart,
    )

    (_, first), *messages = messages
    files = [BinaryContent(data=each.content, media_type=each.media_type) for each in attachments]
    asked = UserPromptPart([first, *files] if files else first)
    history: list[ModelMessage] = [ModelRequest(parts=[SystemPromptPart(system), asked])]
    for speaker, text in messages:
        if speaker == "assistant":
            history.append(ModelResponse(parts=[TextPart(text)]))
        elif isinstance(history[-1], ModelRequest):
            history[-1] = ModelRequest(parts=[*history[-1].parts, UserPromptPart(text)])
        else:
            history.append(ModelRequest(parts=[UserPromptPart(text)]))
    return history


def _parameters(spec: ModelSpec, schema: type[Any]) -> "ModelRequestParameters | None":
    if spec.output == "prompt":
        return None
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition

    form = json_schema(schema)
    definition = OutputObjectDefinition(json_schema=form, name=form["title"])
    return ModelRequestParameters(output_mode="native", output_object=definition)


def _failure(error: "ModelAPIError", *, timeout: float, address: str | None) -> RequestFailed:
    from pydantic_ai.exceptions import (
        ModelConnectionError,
        ModelHTTPError,
        ModelQuotaExceededError,
        ModelRequestTimeout,
        ModelTimeoutError,
    )

    where = f" from {address}" if address else ""
    if isinstance(error, ModelRequestTimeout | ModelTimeoutError):
        return RequestFailed(f"no answer within {timeout:g} s{where}", billed=True)
    if isinstance(error, ModelHTTPError):
        status = error.status_code
        final = (400 <= status < 500 and status not in (408, 409, 429)) or isinstance(error, ModelQuotaExceededError)
        return RequestFailed(f"HTTP {status}{_said(error.body)}{_advice(status)}", final=final, wait=error.retry_after)
    if isinstance(error, ModelConnectionError):
        where = f" at {address}" if address else ""
        return RequestFailed(f"could not be reached{where}: {str(error)[:_SHOWN]}", wait=error.retry_after)
    return RequestFailed(str(error)[:_SHOWN], wait=error.retry_after)


def _said(body: object) -> str:
    message = body.get("message", body) if isinstance(body, dict) else body
    return f": {str(message)[:_SHOWN]}" if message else ""


def _advice(status: int) -> str:
    if status in (401, 403):
        return ". Check the API key"
    return ". Check the model's name and base_url" if status == 404 else ""
