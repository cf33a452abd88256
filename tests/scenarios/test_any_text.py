"""Whatever stands in a file, the loader loads it or says what is wrong: nothing else is ever raised."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.errors import UsageError
from seatrial.scenarios.fingerprint import fingerprints
from seatrial.scenarios.keys import CONFIG, SCENARIO, SUITE
from seatrial.scenarios.load import load

WORDS = st.sampled_from(
    [
        *SCENARIO.keys,
        *CONFIG.keys,
        *SUITE.keys,
        "scenarios",
        "suite",
        "id",
        "runs",
        "a",
        "5",
        "true",
        "null",
        "$regex",
        "(",
    ]
)
PIECES = st.one_of(
    WORDS,
    st.sampled_from([*" \n\t:-[]{},&*!|>'\"#%@?~", "- ", ": ", "\n  ", "\n    ", "<<", "---\n", "*a", "&a"]),
)
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), WORDS, st.text(max_size=5), st.just("\ud800"), st.just("{a}")
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4), max_leaves=12
)
FILES = st.fixed_dictionaries(
    {"scenarios": st.lists(st.dictionaries(WORDS, VALUES, max_size=5) | VALUES, max_size=3)},
    optional={"suite": st.dictionaries(WORDS, VALUES, max_size=5)},
)


def _loads_or_says_why(suffix: str, content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, f"any{suffix}")
        path.write_bytes(content)
        try:
            suites = load(path, environ={})
        except UsageError:
            return
        assert all(suite.count for suite in suites)
        assert all(fingerprints(each, "a") for suite in suites for each in suite.scenarios)


SUFFIXES = st.sampled_from([".yaml", ".json", ".jsonl"])
EXAMPLES = settings(max_examples=150, deadline=None)


@EXAMPLES
@given(SUFFIXES, st.binary(max_size=200))
def test_any_bytes(suffix, content):
    _loads_or_says_why(suffix, content)


@EXAMPLES
@given(SUFFIXES, st.text(max_size=200))
def test_any_text(suffix, content):
    _loads_or_says_why(suffix, content.encode("utf-8", "surrogatepass"))


@EXAMPLES
@given(SUFFIXES, st.lists(PIECES, max_size=40).map("".join))
def test_any_text_that_looks_like_yaml(suffix, content):
    _loads_or_says_why(suffix, content.encode())


@EXAMPLES
@given(FILES, st.sampled_from([".yaml", ".json"]))
def test_any_data_under_our_keys(content, suffix):
    _loads_or_says_why(suffix, json.dumps(content).encode())


@EXAMPLES
@given(st.lists(st.dictionaries(WORDS, VALUES, max_size=6), max_size=3))
def test_any_lines_under_our_keys(lines):
    _loads_or_says_why(".jsonl", "\n".join(json.dumps(line) for line in lines).encode())
