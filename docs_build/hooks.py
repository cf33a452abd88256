"""Called by MkDocs while it builds the site."""

import re
from typing import Any

_EXTERNAL = re.compile(
    r'<(?:script|img|iframe|link rel="(?:stylesheet|preconnect|icon)")[^>]*(?:src|href)="https?://[^"]+"'
)


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """The page, unchanged. Raises ValueError if it loads a file from another site: ours works without a network."""
    found = _EXTERNAL.search(output)
    if found:
        raise ValueError(f"{page.file.src_path}: {found[0]} loads a file from another site")
    return output
