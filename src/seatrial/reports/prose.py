"""Markdown of agents as safe HTML: no HTML of theirs, no images, no links that lead anywhere."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .terminal import escape_controls, shorten

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markupsafe import Markup

LONGEST = 20_000
_SIGNS = ("**", "`", "# ", "\n- ", "\n* ", "\n1. ", "\n|", "](", "*")


def has_markdown(text: str) -> bool:
    """Whether the text may have Markdown. Most texts have none, and are shown as they are."""
    return any(sign in text for sign in _SIGNS)


def prose(text: str) -> "Markup":
    """The text with its Markdown rendered. HTML is shown as text; links are not clickable."""
    from markupsafe import Markup

    shown = escape_controls(shorten(text, LONGEST))
    return Markup(_renderer().render(shown))


@lru_cache(maxsize=1)
def _renderer() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"html": False, "breaks": False, "linkify": False})
    made.enable(["table", "strikethrough"]).disable("image")
    # No link is clickable, so every link is shown as one.
    made.validateLink = lambda url: True  # type: ignore[method-assign]
    made.add_render_rule("link_open", _open_link)
    made.add_render_rule("link_close", lambda *_: "</span>")
    for tag in ("heading_open", "heading_close"):
        made.add_render_rule(tag, _heading)
    for tag in ("th_open", "td_open"):
        made.add_render_rule(tag, lambda self, tokens, place, *_: f"<{tokens[place].tag}>")
    made.add_render_rule("ordered_list_open", lambda *_: "<ol>\n")
    return made


def _open_link(self: Any, tokens: Any, place: int, *_: Any) -> str:
    from markupsafe import escape

    return f'<span class="link" title="{escape(str(tokens[place].attrGet("href") or ""))}">'


def _heading(self: Any, tokens: Any, place: int, *_: Any) -> str:
    """A heading of the agent is no heading of the page."""
    return '<p class="heading"><b>' if tokens[place].nesting == 1 else "</b></p>\n"
