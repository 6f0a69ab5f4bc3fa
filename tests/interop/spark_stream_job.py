"""A stream from our source into files, which the test kills: `spark_stream_job.py BOOTSTRAP FOLDER follow|drain`.

`follow` runs forever and prints a line for each micro-batch. `drain` reads the remaining records, and prints the
content of the files: the rows, distinct offsets, first and last offset of each partition.
"""

import json
import sys
from pathlib import Path

import trimaran.spark as ts


def main(bootstrap, folder, how):
    session = ts.session(app_name="stream")
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": "orders"}
    limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "3000"}
    source = session.readStream.format("kafka_log").options(**options, **limits).load()
    writer = (
        source.selectExpr("partition", "offset", "CAST(value AS STRING) AS value")
        .writeStream.format("parquet")
        .option("path", f"{folder}/out")
        .option("checkpointLocation", f"{folder}/checkpoint")
    )
    if how == "follow":
        query = writer.trigger(processingTime="100 milliseconds").start()
        seen = -1
        while not query.awaitTermination(0.05):
            progress = query.lastProgress
            if progress is not None and progress["batchId"] > seen:
                seen = progress["batchId"]
                print(seen, flush=True)
        return
    writer.trigger(availableNow=True).start().awaitTermination()
    session.read.parquet(f"{folder}/out").createOrReplaceTempView("out")
    rows = session.sql(
        "SELECT partition, count(*) AS rows, count(DISTINCT offset) AS offsets, min(offset) AS first, "
        "max(offset) AS last, count_if(value != concat(partition, '-', offset)) AS wrong "
        "FROM out GROUP BY partition ORDER BY partition"
    ).collect()
    Path(folder, "told.json").write_text(json.dumps([row.asDict() for row in rows]))


if __name__ == "__main__":
    main(*sys.argv[1:])
