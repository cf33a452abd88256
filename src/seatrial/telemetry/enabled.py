"""Whether spans are wanted at all: looked up for every run, so it imports nothing before it must."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

from seatrial.model.events import Event

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The switch of OpenTelemetry's own GenAI instrumentations for messages, arguments and results."""


def span_listeners(environ: Mapping[str, str]) -> tuple[Callable[[Event], None], ...]:
    """A listener that writes spans, where the environment names an exporter or the process has a TracerProvider.

    None where the extra `otel` is not installed: the variables are there for other programs as well.
    """
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ()
    provider = _provider_of_process()
    if provider is None and not (_names_exporter(environ) and _has_sdk()):
        return ()
    from .listener import SpanListener

    return (SpanListener(provider, environ, with_content=captures_content(environ)),)


def captures_content(environ: Mapping[str, str]) -> bool:
    """Whether what was said may be part of the spans; it is not unless somebody says so."""
    return environ.get(CONTENT, "").strip().lower() in ("true", "span_only", "span_and_event")


def _names_exporter(environ: Mapping[str, str]) -> bool:
    exporter = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if exporter:
        return exporter != "none"
    return any(environ.get(name, "").strip() for name in _ENDPOINTS)


def _provider_of_process() -> Any:
    """The TracerProvider that the user's own code has set; None where there is none."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    provider = trace.get_tracer_provider()
    return None if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider) else provider


def _has_sdk() -> bool:
    from importlib.util import find_spec

    return find_spec("opentelemetry") is not None and find_spec("opentelemetry.sdk") is not None
