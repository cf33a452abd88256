"""Starts spans for a run if the environment asks for them. OpenTelemetry is imported only then."""

import logging
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from seatrial.model.protocols import Event, RunFinished, RunStarted, TrialFinished
from seatrial.model.run import Run, Trial
from seatrial.version import __version__

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from .spans import OwnProvider


_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable of OpenTelemetry's GenAI instrumentations that allows messages, arguments and results."""


def span_listeners(environ: Mapping[str, str]) -> tuple[Callable[[Event], None], ...]:
    """A listener that writes spans, if the environment names an exporter or the process has a TracerProvider.

    None if the extra `otel` is not installed: the variables may be meant for other programs.
    """
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ()
    provider = _provider_of_process()
    if provider is None and not (_names_exporter(environ) and _has_sdk()):
        return ()

    return (SpanListener(provider, environ, with_content=captures_content(environ)),)


def captures_content(environ: Mapping[str, str]) -> bool:
    """Whether messages may be part of the spans; by default they are not."""
    return environ.get(CONTENT, "").strip().lower() in ("true", "span_only", "span_and_event")


def _names_exporter(environ: Mapping[str, str]) -> bool:
    exporter = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if exporter:
        return exporter != "none"
    return any(environ.get(name, "").strip() for name in _ENDPOINTS)


def _provider_of_process() -> Any:
    """The TracerProvider that the user's own code has set, if any."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    provider = trace.get_tracer_provider()
    return None if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider) else provider


def _has_sdk() -> bool:
    from importlib.util import find_spec

    return find_spec("opentelemetry") is not None and find_spec("opentelemetry.sdk") is not None


_log = logging.getLogger("seatrial.telemetry")


class SpanListener:
    """Writes spans. The first error is logged and ends it; it never changes a verdict."""

    def __init__(self, provider: "TracerProvider | None", environ: Mapping[str, str], *, with_content: bool) -> None:
        """`provider`: that of the process; None: make one, as the environment says."""
        self._given = provider
        self._environ = environ
        self._with_content = with_content
        self._own: OwnProvider | None = None
        self._run: Run | None = None
        self._context: Any = None
        self._tracer: Any = None
        self._gave_up = False

    def __call__(self, event: Event) -> None:
        if self._gave_up:
            return
        try:
            match event:
                case RunStarted():
                    self._start(event.run)
                case TrialFinished():
                    self._write(event.trial)
                case RunFinished():
                    self._finish()
        except Exception as problem:
            self._gave_up = True
            _log.warning("OpenTelemetry: no more spans are written: %s: %s", type(problem).__name__, problem)

    def _start(self, run: Run) -> None:
        from opentelemetry import context

        provider = self._given
        if provider is None:
            from .spans import OwnProvider

            self._own = OwnProvider(self._environ)
            provider = self._own.provider
        self._run = run
        # The span in which the run was started: trials end on other threads, which do not know it.
        self._context = context.get_current()
        self._tracer = provider.get_tracer("seatrial", __version__)

    def _write(self, trial: Trial) -> None:
        from .spans import TrialSpans

        if self._run is not None:
            TrialSpans(self._tracer, self._run, with_content=self._with_content).write(trial, within=self._context)

    def _finish(self) -> None:
        if self._own is None:
            return
        lost = self._own.close()
        if lost:
            _log.warning("OpenTelemetry: %d spans could not be exported", lost)
