"""The model layer: the one room that talks to language models, on pydantic-ai.

Users and judges hand it questions and get validated objects back; which provider answers, how often it is asked again,
what is cached and what it cost is decided here and nowhere else. pydantic-ai takes more than a second to import, so it
is loaded with the first request, and a run that asks no model never loads it.
"""

from typing import TYPE_CHECKING

from seatrial.lazy import lazy

if TYPE_CHECKING:
    from .client import LLM as LLM
    from .model import ModelSpec as ModelSpec
    from .model import parse_model as parse_model
    from .prices import has_price as has_price
    from .providers import check_model as check_model
    from .types import Answer as Answer
    from .types import ModelFailure as ModelFailure
    from .types import Question as Question
    from .types import Role as Role
    from .types import Said as Said

__all__, __getattr__, __dir__ = lazy(
    __name__,
    {
        "client": ("LLM",),
        "model": (
            "ModelSpec",
            "parse_model",
        ),
        "prices": ("has_price",),
        "providers": ("check_model",),
        "types": (
            "Answer",
            "ModelFailure",
            "Question",
            "Role",
            "Said",
        ),
    },
)
