"""Play conversations and judge them: the turn loop, evaluation, schedule, redaction and executors.

The package gets prepared objects and yields trials. It knows only protocols, so it needs no database and no specific
kind of agent, user or tool.
"""
