"""A local Spark session: Java, the archive of classes, and the process from which workers are forked."""
