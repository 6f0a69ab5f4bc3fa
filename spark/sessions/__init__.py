"""A local Spark session: Java, the archive of classes, and the process that workers are forked from."""
