"""The manual as a site: the order of its pages (`navigation`), and the build by Sphinx (`__main__`, `conf`)."""
