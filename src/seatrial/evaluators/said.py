"""Evaluators of a whole conversation: what the agent said in any of its replies, and who ended it."""

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from seatrial.errors import UsageError
from seatrial.model.conversation import REDACTED, StopReason
from seatrial.model.protocols import Context, TrialContext
from seatrial.model.results import EvalResult
from seatrial.model.struct import Struct, set_field
from seatrial.patterns import search

from .built_in import BuiltInEvaluator, failed, no_answer, pattern, text, texts
from .redacted_evidence import is_found_surely, secret_in_reply


class Said(BuiltInEvaluator, frozen=True, kw_only=True):
    """Passes when the replies of the conversation contain the required texts, each within one reply, and no forbidden
    one. Case is ignored. Characters in `ignore` are removed from texts and replies first.
    """

    contains_all: Sequence[str] = ()
    contains_any: Sequence[str] = ()
    excludes: Sequence[str] = ()
    matches_all: Sequence[str] = ()
    ignore: str = ""

    name: ClassVar[str] = "said"
    needs_one_of: ClassVar[tuple[str, ...]] = ("contains_all", "contains_any", "excludes", "matches_all")
    searches_texts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for group in self.needs_one_of:
            set_field(self, group, texts(f"said_{group}", getattr(self, group)))
        text("said_ignore", self.ignore)
        for index, each in enumerate(self.matches_all):
            pattern(f"said_matches_all[{index}]", each)
        for group in ("contains_all", "contains_any", "excludes"):
            for each in getattr(self, group):
                if not self._plain(each):
                    raise UsageError(f"said_{group}: {each!r} has only characters of said_ignore. Remove it.")

    async def evaluate(self, ctx: Context) -> EvalResult:
        if not isinstance(ctx, TrialContext):
            return no_answer("said: is about all replies of a trial", hint="Move it to the scenario's own expect.")
        replies = [self._plain(turn.reply or "") for turn in ctx.transcript.turns]
        wrong = self._first_failure(replies)
        if wrong is not None:
            return failed(*wrong)
        if any(REDACTED in reply for reply in replies):
            # The redacted part may have contained a forbidden text.
            if self.excludes:
                return secret_in_reply("said_excludes", ctx, searched_for="forbidden strings")
            if not all(_is_found(each, replies, surely=True) for each in self.matches_all):
                return secret_in_reply("said_matches_all", ctx, searched_for="patterns")
        return EvalResult(passed=True, reasoning="All texts were said as expected")

    def _first_failure(self, replies: Sequence[str]) -> tuple[str, str] | None:
        missing = [each for each in self.contains_all if not self._turns_with(each, replies)]
        if missing:
            return "said_contains_all", f"No reply contains {_listed(missing)}"
        if self.contains_any and not any(self._turns_with(each, replies) for each in self.contains_any):
            return "said_contains_any", f"No reply contains any of {_listed(self.contains_any)}"
        unmatched = [each for each in self.matches_all if not _is_found(each, replies)]
        if unmatched:
            return "said_matches_all", f"No reply matches {_listed(unmatched)}"
        for each in self.excludes:
            turns = self._turns_with(each, replies)
            if turns:
                return "said_excludes", f"The reply in turn {turns[0]} contains the forbidden {each!r}"
        return None

    def _turns_with(self, wanted: str, replies: Sequence[str]) -> list[int]:
        """The turns, from 1, whose reply contains the text."""
        plain = self._plain(wanted).lower()
        return [turn for turn, reply in enumerate(replies, 1) if plain in reply.lower()]

    def _plain(self, given: str) -> str:
        return given.translate(dict.fromkeys(map(ord, self.ignore))) if self.ignore else given


def _listed(wanted: Sequence[str]) -> str:
    return ", ".join(map(repr, wanted))


def _is_found(wanted: str, replies: Sequence[str], *, surely: bool = False) -> bool:
    if surely:
        return any(is_found_surely(wanted, reply, re.IGNORECASE) for reply in replies)
    return any(search(wanted, reply, re.IGNORECASE) is not None for reply in replies)


_ENDED_BY: Mapping[StopReason, str] = {
    StopReason.GOAL_MET: "The user ended the conversation: the goal was met",
    StopReason.USER_STOPPED: "The user ended the conversation",
    StopReason.ENDED_BY_TOOL: "A tool of the world ended the conversation",
}
"""Stop reasons for a conversation that the user or a tool ended."""
_NOT_ENDED_BY: Mapping[StopReason, str] = {
    StopReason.MAX_TURNS: "max_turns stopped it",
    StopReason.LIMIT: "a limit stopped it",
    StopReason.SCRIPT_ENDED: "the script was played whole",
}


class Ended(Struct, frozen=True, kw_only=True):
    """Passes when the user ended the conversation, not max_turns or a limit."""

    name: ClassVar[str] = "ended"

    async def evaluate(self, ctx: Context) -> EvalResult:
        if not isinstance(ctx, TrialContext):
            return no_answer("ended: is about a whole trial", hint="Move it to the scenario's own expect.")
        transcript = ctx.transcript
        if transcript.stop_reason in _ENDED_BY:
            return EvalResult(passed=True, reasoning=_ENDED_BY[transcript.stop_reason])
        if transcript.recorded is not None and transcript.stop_reason is StopReason.SCRIPT_ENDED:
            hint = "Check recordings without 'ended', or run the scenario."
            return no_answer("ended: the recording does not say who ended the conversation", hint=hint)
        why = _NOT_ENDED_BY.get(transcript.stop_reason, str(transcript.stop_reason))
        return failed("ended", f"Neither the user nor a tool ended the conversation: {why}")
