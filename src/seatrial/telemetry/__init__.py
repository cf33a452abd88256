"""Finished trials as OpenTelemetry spans, for those who have a tracing system already.

A room of its own because it looks at trials from outside, as reports do: it is told of a trial once it is stored, and
nothing it does can change a verdict. Without an exporter nothing of OpenTelemetry is imported.
"""

from typing import TYPE_CHECKING

from seatrial.lazy import lazy

if TYPE_CHECKING:
    from .enabled import span_listeners as span_listeners

__all__, __getattr__, __dir__ = lazy(__name__, {"enabled": ("span_listeners",)})
