"""The names that scenarios have taken: suite and name together are an identity, over all files."""

from collections.abc import Callable, Collection, Iterator
from itertools import islice


class LargeFile:
    """A file whose scenarios are too many to hold, and so are their names."""

    __slots__ = ("names", "taken")

    def __init__(self, names: Callable[[], Iterator[tuple[str, str]]], *, taken: int) -> None:
        self.names = names
        """The names and their places, in the order in which they were taken, read from the file again."""
        self.taken = taken


class Names:
    """Who has which name. Of a large file only hashes are kept, and it is looked into again once two are the same."""

    def __init__(self) -> None:
        self._places: dict[str, dict[str, str]] = {}
        self._hashes: dict[str, set[int]] = {}
        self._large: dict[str, dict[LargeFile, None]] = {}
        self._recalled: set[str] = set()
        """Suites of which all names are held, since two seemed to be the same."""

    def take(self, suite: str, name: str, place: str, *, large: LargeFile | None = None) -> str | None:
        """Where the name was taken before; None when it was free."""
        places = self._places.setdefault(suite, {})
        hashes = self._hashes.setdefault(suite, set())
        if hash(name) in hashes:
            self._recall(suite)
        if large is None or name in places or suite in self._recalled:
            before = places.get(name)
            if before is None:
                places[name] = place
        else:
            before = None
            hashes.add(hash(name))
            self._large.setdefault(suite, {})[large] = None
        if large is not None:
            large.taken += 1
        return before

    def of(self, suite: str) -> Collection[str]:
        """The names of a suite."""
        self._recall(suite)
        return self._places.get(suite, {}).keys()

    def _recall(self, suite: str) -> None:
        """Hold the names of large files after all, each with the place where it was taken first."""
        places = self._places.setdefault(suite, {})
        for large in self._large.pop(suite, {}):
            for name, place in islice(large.names(), large.taken):
                places.setdefault(name, place)
        self._hashes.pop(suite, None)
        self._recalled.add(suite)
