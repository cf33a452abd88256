"""Statistics of pass rates: intervals, gates, sequential tests, comparisons, planning, calibration of judges.

Pure functions in the standard library: counts come in, frozen results go out. No clock, disk, network or hidden
randomness, so tests can check every function against an independent implementation.

Import the modules you need: all of them together take 40 ms to load.
"""
