"""Every program that a page names, run small: what pages name (`named`), how each is run small (`small_runs`)."""
