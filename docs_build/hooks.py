"""What MkDocs calls while it builds the site: puts the generated parts where pages ask for them."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from seatrial_docs.reference import fill


def on_page_markdown(markdown: str, **_: Any) -> str:
    return fill(markdown)
