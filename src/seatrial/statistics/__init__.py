"""Pass rates and what they prove: intervals, gates, sequential tests, comparisons, planning, and trust in a judge.

A room of its own because it is the part that must be right when nobody looks: pure functions of numbers, in the
standard library alone, without clock, disk, network or hidden randomness, so that every one of them can be checked
against an oracle. It knows nothing of agents; counts come in, frozen results go out.

A file is loaded when the first of its names is used: all of them together cost 40 ms, what a run needs costs 10.
"""
