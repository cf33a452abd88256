"""Who is told of a run as it goes on."""

import sys

from .request import Listener, RunRequest


def listeners_of(request: RunRequest) -> tuple[Listener, ...]:
    """Those of the request, and one that writes spans where OpenTelemetry is in use at all."""
    environ = request.environ
    if "opentelemetry.trace" not in sys.modules and not any(name.startswith("OTEL_") for name in environ):
        return request.listeners
    from seatrial.telemetry.enabled import span_listeners

    return (*request.listeners, *span_listeners(environ))
