"""Small runs of every program that a page names: the named programs (`named`), and the run of each (`small_runs`)."""
