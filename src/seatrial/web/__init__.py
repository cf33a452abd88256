"""The server: a JSON API and web pages over the store.

It reads runs like the command line does, shows them with the templates of the HTML report, and starts runs as
`seatrial run` in separate processes. Nothing is decided here.
"""
