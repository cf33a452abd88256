"""The tools of the documentation: run its blocks, generate the reference, draw the picture."""
