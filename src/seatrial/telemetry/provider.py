"""A TracerProvider of our own, set up from the standard OTEL_* variables. It is never made the global one."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from seatrial.errors import MissingExtra, UsageError

from .span_processor import Sender

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter


class OwnProvider:
    """Lives as long as the run."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider

        self._sender = Sender(_exporter(environ))
        # Resource.create lets OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES come before ours.
        named = {} if environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: "seatrial"}
        self.provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
        self.provider.add_span_processor(self._sender)

    def close(self) -> int:
        """Send what is left; how many spans did not get through."""
        self.provider.shutdown()
        return self._sender.lost


def _exporter(environ: Mapping[str, str]) -> "SpanExporter":
    kind = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() or "otlp"
    if kind == "console":
        import sys

        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter(out=sys.stderr)  # stdout is for the report
    if kind == "otlp":
        return _otlp(environ)
    raise UsageError(f"OTEL_TRACES_EXPORTER={kind!r}: expected otlp, console or none")


def _otlp(environ: Mapping[str, str]) -> "SpanExporter":
    protocol = environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    if protocol not in (None, "", "http/protobuf"):
        raise UsageError(f"OTEL_EXPORTER_OTLP_PROTOCOL={protocol!r}: only http/protobuf is spoken here")
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise MissingExtra("otel", needed_for="exporting spans over OTLP") from None
    return OTLPSpanExporter()
