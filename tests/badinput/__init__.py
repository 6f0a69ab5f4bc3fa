"""Bad input, sent to real nodes: what comes back, and what does not change. Names of tests say the row of the design
page.
"""
