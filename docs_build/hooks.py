"""Called by MkDocs while it builds the site."""

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from seatrial_docs import llms

_EXTERNAL = re.compile(
    r'<(?:script|img|iframe|link rel="(?:stylesheet|preconnect|icon)")[^>]*(?:src|href)="https?://[^"]+"'
)


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """The page, unchanged. Raises ValueError if it loads a file from another site: ours works without a network."""
    found = _EXTERNAL.search(output)
    if found:
        raise ValueError(f"{page.file.src_path}: {found[0]} loads a file from another site")
    return output


def on_post_build(*, config: Any, **_: Any) -> None:
    """Write llms.txt and llms-full.txt into the site."""
    site, docs = Path(config["site_dir"]), Path(config["docs_dir"])
    about = (config["site_name"], config["site_description"], config["nav"], docs)
    (site / "llms.txt").write_text(llms.write_index(*about), encoding="utf-8")
    (site / "llms-full.txt").write_text(llms.write_full(*about), encoding="utf-8")
