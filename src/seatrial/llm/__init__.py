"""The model layer: the one room that talks to language models, on pydantic-ai.

Users and judges hand it questions and get validated objects back; which provider answers, how often it is asked again,
what is cached and what it cost is decided here and nowhere else. pydantic-ai takes more than a second to import, so it
is loaded with the first request, and a run that asks no model never loads it.
"""
