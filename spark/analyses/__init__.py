"""One file for each analysis: a function DataFrame → DataFrame, its plot, its verdicts. `catalogue.ANALYSES` lists
them.
"""
