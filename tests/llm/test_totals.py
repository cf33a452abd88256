import pytest

from seatrial.model.conversation import Usage
from seatrial.model.results import ModelUse, sum_model_use

PRICED = ModelUse(calls=1, usage=Usage(input_tokens=10, output_tokens=5), cost_usd=0.5)
UNPRICED = ModelUse(calls=1, usage=Usage(input_tokens=1, output_tokens=1))
CACHED = ModelUse(cached=1, cost_usd=0.0)


@pytest.mark.parametrize(
    ("uses", "total"),
    [
        ([], ModelUse()),
        ([None, ModelUse()], ModelUse()),
        ([CACHED], CACHED),
        ([PRICED, CACHED, None], ModelUse(calls=1, cached=1, usage=PRICED.usage, cost_usd=0.5)),
        ([PRICED, PRICED], ModelUse(calls=2, usage=Usage(input_tokens=20, output_tokens=10), cost_usd=1.0)),
        ([PRICED, UNPRICED], ModelUse(calls=2, usage=Usage(input_tokens=11, output_tokens=6), cost_usd=None)),
    ],
)
def test_a_sum_has_a_cost_only_when_every_call_has_one(uses: list[ModelUse | None], total: ModelUse) -> None:
    assert sum_model_use(uses) == total
