"""What the one-file report and the server's pages share: template parts, one style, charts.

A room within the room, because two doors show the same things: whoever edits how a conversation looks edits it once.
"""
