"""What MkDocs calls while it builds the site: puts the generated parts where pages ask for them."""

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from seatrial_docs.reference import fill

_FOREIGN = re.compile(
    r'<(?:script|img|iframe|link rel="(?:stylesheet|preconnect|icon)")[^>]*(?:src|href)="https?://[^"]+"'
)


def on_page_markdown(markdown: str, **_: Any) -> str:
    return fill(markdown)


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """The page as it is. Raises where it would load something from elsewhere: the site works without a network."""
    found = _FOREIGN.search(output)
    if found:
        raise ValueError(f"{page.file.src_path}: {found[0]} comes from elsewhere")
    return output
