"""Mutants: conversations with one known defect, and the lines of a suite that would notice it.

Operators are pure functions from a transcript to mutants. They call no agent and no model.
"""

from .mutant import Mutant as Mutant
from .mutant import RunFacts as RunFacts
