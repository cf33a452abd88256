"""Spans on their way out. The batch processor of the SDK drops spans when it cannot keep up; this one waits."""

import queue
import threading
from typing import Final

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

BATCH: Final = 512
WAITING: Final = 4096
"""Spans held in memory; beyond, whoever ends a span waits, and memory stays flat."""
CLOSE_SECONDS: Final = 15.0


class Sender(SpanProcessor):
    """Exports in a thread of its own. After the first failure nothing more is tried, only counted."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._waiting: queue.Queue[ReadableSpan | None] = queue.Queue(WAITING)
        self._broken = False
        self.lost = 0
        """Spans that did not get through."""
        self._thread = threading.Thread(target=self._work, name="seatrial-spans", daemon=True)
        self._thread.start()

    def on_end(self, span: ReadableSpan) -> None:
        if span.context is not None and span.context.trace_flags.sampled:
            self._waiting.put(span)

    def shutdown(self) -> None:
        """Send what waits; a collector that hangs is not waited for for ever."""
        self._waiting.put(None)
        self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive():
            self.lost += self._waiting.qsize()
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return True

    def _work(self) -> None:
        while (span := self._waiting.get()) is not None:
            batch = [span]
            ended = False
            while len(batch) < BATCH and not ended:
                try:
                    following = self._waiting.get_nowait()
                except queue.Empty:
                    break
                if following is None:
                    ended = True
                else:
                    batch.append(following)
            self._export(batch)
            if ended:
                return

    def _export(self, batch: list[ReadableSpan]) -> None:
        if not self._broken:
            try:
                self._broken = self._exporter.export(batch) is not SpanExportResult.SUCCESS
            except Exception:
                # Exporters are foreign code, and this thread is the border to them.
                self._broken = True
        if self._broken:
            self.lost += len(batch)
