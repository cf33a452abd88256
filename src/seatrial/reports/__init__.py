"""Reports: a stored run for terminals, CI, browsers and programs.

Every report shows the same record. Statuses, reasons and numbers come from the run's outcome; nothing is decided here.
Reports are written trial by trial, so memory does not grow with the run, and all agent text is escaped.
A separate package, because showing a run needs no agent, judge or database.
"""
