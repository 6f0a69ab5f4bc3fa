"""The origins of batches: node directories, running brokers, running controllers. Pure, without Spark."""
