"""The web console: pages in front of any cluster, ours or Apache Kafka's, rendered here and readable as JSON, too.

A page is a function from a question to plain data (`pages/`), run in a worker thread; a template shows the data. The
shell around them is Starlette on trio (`serving`). Nothing is fetched from elsewhere.
"""
