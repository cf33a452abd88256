"""How near the reply is to the expected text in meaning."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from math import fsum, isfinite, sqrt
from typing import ClassVar, TypeAlias

from seatrial.errors import UsageError
from seatrial.llm.embedding import embed_texts
from seatrial.model.conversation import ErrorInfo, ErrorKind, is_blank
from seatrial.model.protocols import Context
from seatrial.model.results import Check, EvalResult

Vector: TypeAlias = Sequence[float]
Embed: TypeAlias = Callable[[Sequence[str]], Awaitable[Sequence[Vector]]]
"""Texts in, a vector for each out."""


@dataclass(frozen=True, slots=True)
class Similarity:
    """Passes when the cosine between the reply and the expected text reaches the threshold."""

    expected: str | None = None
    """None: the scenario's `expected_output`."""
    _: KW_ONLY
    threshold: float = 0.7
    embed: Embed = field(default=embed_texts, repr=False)
    """Makes the vectors; any embedding model can stand in."""

    name: ClassVar[str] = "similarity"

    def __post_init__(self) -> None:
        if self.expected is not None and (not isinstance(self.expected, str) or not self.expected.strip()):
            raise UsageError(f"similarity.expected: expected a text to compare with, got {self.expected!r}.")
        number = not isinstance(self.threshold, bool) and isinstance(self.threshold, int | float)
        if not number or not -1.0 <= self.threshold <= 1.0:
            raise UsageError(f"similarity.threshold: expected a number from -1 to 1, got {self.threshold!r}.")

    async def evaluate(self, ctx: Context) -> EvalResult:
        expected = self.expected
        if expected is None and ctx.scenario is not None:
            expected = ctx.scenario.expected_output
        if expected is None or not expected.strip():
            message = "similarity: there is no text to compare with"
            return _no_answer(ErrorKind.CONFIG, message, hint="Give the scenario an expected_output.")
        if is_blank(ctx.reply):
            return self._result(0.0, "the reply is empty")
        try:
            vectors = await self.embed((ctx.reply, expected))
        except UsageError as mistake:
            return _no_answer(ErrorKind.CONFIG, str(mistake))
        cosine = cosine_of(*vectors) if len(vectors) == 2 else None
        if cosine is None:
            message = "similarity: the embedding model gave no usable vectors (of length zero, unequal or not finite)"
            return _no_answer(ErrorKind.EVALUATOR, message)
        return self._result(cosine)

    def _result(self, cosine: float, remark: str = "") -> EvalResult:
        passed = not remark and cosine >= self.threshold
        detail = remark or f"cosine {cosine:.4f}, threshold {self.threshold:g}"
        return EvalResult(
            passed=passed,
            reasoning=f"Similarity: {'PASS' if passed else 'FAIL'} ({detail}).",
            score=min(1.0, max(0.0, cosine)),
            checks=(Check(name="similarity", passed=passed, detail=detail),),
        )


def cosine_of(left: Vector, right: Vector) -> float | None:
    """The cosine of the angle between two vectors; None where they have none."""
    if not left or len(left) != len(right):
        return None
    product = fsum(a * b for a, b in zip(left, right, strict=True))
    lengths = sqrt(fsum(a * a for a in left)) * sqrt(fsum(b * b for b in right))
    if not isfinite(product) or not isfinite(lengths) or lengths == 0.0:
        return None
    return product / lengths


def _no_answer(kind: ErrorKind, message: str, *, hint: str | None = None) -> EvalResult:
    error = ErrorInfo(kind=kind, message=message, hint=hint)
    return EvalResult(passed=False, reasoning=f"{message}. {hint}" if hint else message, error=error)
