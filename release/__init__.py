"""`./dev release`: everything that a release consists of, made from the commit that is checked out."""
