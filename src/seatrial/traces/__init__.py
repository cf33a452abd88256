"""Conversations that were recorded elsewhere, read into transcripts: chat logs, SDK dumps, spans, our own exports.

A room of its own because other people's formats change without asking us: what is known of them stays in here, and
everybody else sees transcripts. Nothing in it may break on any JSON whatever, except with a TraceError.
"""

from typing import TYPE_CHECKING

from seatrial.lazy import lazy

if TYPE_CHECKING:
    from .formats import FORMATS as FORMATS
    from .formats import read_trace as read_trace
    from .recording import Recording as Recording
    from .recording import TraceError as TraceError
    from .recording import TraceFile as TraceFile
    from .scenario_file import notes_on as notes_on
    from .scenario_file import write_scenarios as write_scenarios
    from .script_match import first_difference as first_difference
    from .script_match import script_of as script_of
    from .script_match import words_of as words_of
    from .yaml_text import write_yaml as write_yaml

__all__, __getattr__, __dir__ = lazy(
    __name__,
    {
        "formats": ("FORMATS", "read_trace"),
        "recording": ("Recording", "TraceError", "TraceFile"),
        "scenario_file": ("notes_on", "write_scenarios"),
        "script_match": ("first_difference", "script_of", "words_of"),
        "yaml_text": ("write_yaml",),
    },
)
