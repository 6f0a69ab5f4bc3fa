"""The web console: pages about any cluster, ours or Apache Kafka's, rendered here and also available as JSON.

A page is a function from a request to plain data (`pages/`), run in a worker thread; a template shows the data. The
shell around them is Starlette on trio (`serving`). Browsers load nothing from other sites.
"""
