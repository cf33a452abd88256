"""Helpers for tests of agents and adapters: a contract for adapters, and a model server with scripted answers."""
