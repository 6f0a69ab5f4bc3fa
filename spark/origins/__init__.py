"""Where batches come from: node directories, running brokers, running controllers. Pure, without Spark."""
