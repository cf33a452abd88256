"""Language models for simulated users and judges, with pydantic-ai: questions in, validated objects out.

Retries, the cache and costs are decided here. pydantic-ai takes more than a second to import, so it is loaded with the
first request.
"""
