"""The template engine as both doors use it: everything escaped, nothing undefined, text made visible and cut."""

import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seatrial.reports.conversation import compact
from seatrial.reports.escaping import cut, visible
from seatrial.reports.reasons import explain, explain_error, measures_of, summarise
from seatrial.reports.texts import (
    VERDICT_WORDS,
    aside,
    counted,
    duration,
    gates_of,
    interval,
    money,
    percent,
    run_facts,
    tally_line,
    trials_of,
    verdict_line,
)
from seatrial.reports.to_json import plain
from seatrial.verdicts.reasons import number

from .charts import waterfall
from .first_failure import find_focus

if TYPE_CHECKING:
    from jinja2 import Environment

TEXT_LIMIT = 20_000
_ON_ONE_LINE = 100
_HERE = Path(__file__).parent


@lru_cache(maxsize=1)
def style_sheet() -> str:
    """The one style of report and pages."""
    return (_HERE / "style.css").read_text(encoding="utf-8")


def make_environment(*folders: Path) -> "Environment":
    """Templates from the given folders, and the shared ones."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def shown(value: Any) -> Any:
        """What stands in the page for a value: text made visible and cut, nothing for None."""
        if value is None:
            return ""
        return value if isinstance(value, Markup) else visible(cut(str(value), TEXT_LIMIT))

    environment = Environment(
        loader=FileSystemLoader([*folders, _HERE / "templates"]),
        autoescape=True,
        auto_reload=False,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    words = (
        aside,
        compact,
        counted,
        duration,
        explain,
        explain_error,
        find_focus,
        gates_of,
        interval,
        measures_of,
        money,
        number,
        percent,
        run_facts,
        spread,
        summarise,
        tally_line,
        trials_of,
        verdict_line,
        waterfall,
    )
    environment.globals |= {word.__name__: word for word in words}
    environment.globals["VERDICT_WORDS"] = {status.value: word for status, word in VERDICT_WORDS.items()}
    return environment


def spread(value: Any) -> str:
    """The value as JSON: on one line where it is short, else on several."""
    text = compact(value)
    if len(text) <= _ON_ONE_LINE or not isinstance(value, dict | list | tuple):
        return text
    return json.dumps(plain(value), ensure_ascii=False, indent=2)
