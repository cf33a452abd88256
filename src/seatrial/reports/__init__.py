"""Reports: a stored run as people and machines want to read it.

Every report is a projection of the same record: statuses, reasons and numbers come from the run's outcome, and nothing
is decided here. All of them are written scenario by scenario and trial by trial, so that memory does not grow with the
run, and everything an agent said is escaped for the reader at hand. A room of its own, because it can show a run
without an agent, a judge or a database.
"""
