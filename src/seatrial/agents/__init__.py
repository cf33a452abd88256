"""The systems under test: one module per agent type, which turns what an agent does into an AgentReply or an error.

`resolve` makes an agent from what users write. Code of users runs in `foreign`.
"""
