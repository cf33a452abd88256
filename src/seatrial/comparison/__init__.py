"""Two runs side by side: what changed, whether it is beyond noise, and where the conversations part.

A room of its own, pure, so that the command line, the pages and Python programs all compare by the same rules: runs and
summaries come in, frozen results go out.
"""
