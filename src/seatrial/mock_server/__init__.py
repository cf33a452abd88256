"""An MCP server for mocked tools, so that agents that use the Model Context Protocol can be tested unchanged.

It knows neither mocks nor agents, only `ClientTools`: the tools of a trial, or of a client of `seatrial mock-server`.
"""
