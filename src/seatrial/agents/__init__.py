"""The systems under test and the borders to them: what they may raise, how long they may take, what they return.

It is a room of its own because everything in it is foreign: nothing that happens here may reach the runner but a reply
or a named failure.
"""
