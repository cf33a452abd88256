"""The generated parts of docs/reference, between `<!-- generated: NAME -->` and `<!-- end of NAME -->`.

The rest of a page is written by hand. `make reference` writes the generated parts; a test fails if they are stale.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from seatrial_docs.blocks import GENERATED_PART, ROOT

from .commands import commands, pytest_options
from .environment import providers, settings
from .evaluators import evaluators, failures, metrics
from .keys import agent_types, keys
from .python_names import python_names
from .results import comparison, results

FOLDER = ROOT / "docs" / "reference"
GENERATED: Mapping[str, Callable[[], str]] = {
    "commands": commands,
    "pytest options": pytest_options,
    "keys": keys,
    "agent types": agent_types,
    "evaluators": evaluators,
    "metrics": metrics,
    "failures": failures,
    "python": python_names,
    "results": results,
    "comparison": comparison,
    "settings": settings,
    "providers": providers,
}


def refreshed(markdown: str) -> str:
    """The page with its generated parts made again. Raises KeyError for a part that does not exist."""
    return GENERATED_PART.sub(lambda found: f"{found[1]}\n{GENERATED[found[2]]()}\n{found[3]}", markdown)


def reference_pages() -> list[Path]:
    return sorted(FOLDER.glob("*.md"))


def write_pages() -> list[Path]:
    """Write every page that is stale, and return those."""
    stale = [page for page in reference_pages() if refreshed(text := page.read_text(encoding="utf-8")) != text]
    for page in stale:
        page.write_text(refreshed(page.read_text(encoding="utf-8")), encoding="utf-8")
    return stale
