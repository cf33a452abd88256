"""Trials on a Ray cluster: its workers compute, this process alone plans, decides what is next, and writes the store.

`order` is what a worker is told once, `worker` what runs there, `cluster` everything that knows Ray, and `crew` hands
out the trials. Nothing of it is loaded by runs that stay on one machine.
"""
