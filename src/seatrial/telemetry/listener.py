"""Listens to a run, and turns each finished trial into spans."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from seatrial.model.events import Event, RunFinished, RunStarted, TrialFinished
from seatrial.model.run import Run, Trial
from seatrial.version import __version__

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from .provider import OwnProvider

_log = logging.getLogger("seatrial.telemetry")


class SpanListener:
    """Told of a trial after its commit. Whatever goes wrong here is said once, in the log, and touches no verdict."""

    def __init__(self, provider: "TracerProvider | None", environ: Mapping[str, str], *, with_content: bool) -> None:
        """`provider`: the one of the process; None: one of our own, as the environment says."""
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
            from .provider import OwnProvider

            self._own = OwnProvider(self._environ)
            provider = self._own.provider
        self._run = run
        # Trials end on other threads; whoever started the run may have a span open.
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
