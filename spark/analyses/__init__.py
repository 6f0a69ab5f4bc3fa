"""One file for each analysis: a function DataFrame → DataFrame, its plot, and its verdicts. `catalogue.ANALYSES` lists
them.
"""
