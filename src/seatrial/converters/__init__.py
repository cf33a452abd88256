"""Files of other tools, turned into scenario files of our own, with a list of what they said that these do not.

A room of its own because it speaks other people's languages: nothing here is needed to run a suite. It stands above
`scenarios`, whose reader it uses and whose rules every file it writes must pass.
"""
