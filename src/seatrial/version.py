"""Which Seatrial this is. A constant, since asking the installed metadata takes 20 ms of every start."""

__version__ = "0.1.0.dev0"
