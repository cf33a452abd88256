"""Scenario files come in here: read, checked with every problem at its place, merged, selected and fingerprinted.

A room of its own because what a tester may write is one question, and how it is played another: everything behind
this door has already been found to be right.
"""

from .build import Cast, make_entry, prepare, read_hooks
from .environment import fill_environment
from .examples import expand_examples
from .fingerprint import fingerprint
from .load import each_source, load
from .loaded_suite import LoadedSuite
from .merge import Resolver, merge_config, read_overrides, resolve
from .models import ModelCast
from .problems import FileProblems, Problem
from .schema import json_schema
from .select import select
from .tool_names import can_know_tools, find_unknown_tools
from .yaml_files import parse_value

__all__ = [
    "Cast",
    "FileProblems",
    "LoadedSuite",
    "ModelCast",
    "Problem",
    "Resolver",
    "can_know_tools",
    "each_source",
    "expand_examples",
    "fill_environment",
    "find_unknown_tools",
    "fingerprint",
    "json_schema",
    "load",
    "make_entry",
    "merge_config",
    "parse_value",
    "prepare",
    "read_hooks",
    "read_overrides",
    "resolve",
    "select",
]
