"""Mocked tools as a real MCP server, so that agents which speak the Model Context Protocol can be tested unchanged.

An instrument like the models: it knows no mocks and no agents, only a `Desk` that answers the calls of one client, be
it a trial or a session of `seatrial mock-server`.
"""
