"""What a block must be to follow a chain; every rule is a function of its own.

A rule looks at the state of the chain and at a block, or at the event in it, and returns what is
wrong, or None. The name of the rule is the name of the function, with dashes.
"""
