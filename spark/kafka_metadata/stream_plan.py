"""Plans a stream of the metadata log: its bounds now, and the tasks of a micro-batch."""

from __future__ import annotations

from trimaran.spark.data_source.stream_offsets import StreamOffsets, StreamSurvey
from trimaran.spark.kafka_metadata.bounds import KEY, span, span_of
from trimaran.spark.kafka_metadata.options import MetadataOptions
from trimaran.spark.kafka_metadata.plan import (
    MetadataTask,
    base_snapshot,
    choose_log,
    committed_end,
    end_of,
    find_metadata_logs,
    times_in,
)
from trimaran.spark.origins.directories.directory_origin import split
from trimaran.spark.origins.directories.replicas import MAX_OFFSET
from trimaran.spark.origins.origin import Bounds, DataUnreadable
from trimaran.spark.origins.packing import pack
from trimaran.spark.origins.running_cluster.controllers import ControllerRange, survey_quorum
from trimaran.wire.identity import NO_NODE, Offset


def stream_survey(options: MetadataOptions) -> StreamSurvey:
    """Returns the bounds that a stream may read now: from the log's beginning up to its committed end; and the id of
    the cluster in place of the topic's, which is the same in all clusters.

    Raises:
        DataUnreadable: the committed end is unknown, and uncommitted records were not chosen.
    """
    if options.cluster is not None:
        live = survey_quorum(options.cluster)
        bounds = Bounds(live.start_offset, max(live.start_offset, live.high_watermark))
        return _survey(bounds, live.cluster_id)
    logs = find_metadata_logs(options.paths, options.storage_options)
    log, committed = choose_log(logs), committed_end(logs)
    if committed is None and not options.include_uncommitted:
        raise DataUnreadable(
            f"{log.found.url}: it is not known what is committed; name the directories of a majority of the voters, or "
            "kafka.controller.bootstrap.servers; includeUncommitted=true reads what may be cut off again"
        )
    end = max(log.start_offset, end_of(log, committed, options))
    return _survey(Bounds(log.start_offset, end, log.end_offset), log.found.cluster_id)


def _survey(bounds: Bounds, cluster_id: str) -> StreamSurvey:
    return StreamSurvey({KEY: bounds}, {KEY.topic: cluster_id} if cluster_id else {})


def stream_start(options: MetadataOptions) -> StreamOffsets:
    """Returns the offset at which a stream without a checkpoint begins. Raises DataUnreadable, OptionError."""
    survey = stream_survey(options)
    bounds = survey.bounds[KEY]
    if options.cluster is None:
        logs = find_metadata_logs(options.paths, options.storage_options)
        start = span_of(options, choose_log(logs).replica, bounds).start
    else:
        piece = ControllerRange(options.cluster, NO_NODE, bounds.start, bounds.end)
        start = span(options, bounds, times_in(piece, bounds)).start
    return StreamOffsets({KEY: start}, survey.topic_ids)


def stream_tasks(options: MetadataOptions, start: Offset, end: Offset) -> list[MetadataTask]:
    """Returns tasks for the offsets [start, end) of the log. Raises DataUnreadable."""
    if options.cluster is not None:
        live = survey_quorum(options.cluster)
        piece = ControllerRange(options.cluster, live.leader_id, start, end)
        return [MetadataTask((piece,), live.high_watermark, None, live.leader_id)]
    logs = find_metadata_logs(options.paths, options.storage_options)
    log, committed = choose_log(logs), committed_end(logs)
    ranges = split(log.replica, start, end, options.split_bytes)
    return [
        MetadataTask(piece, committed, None, log.found.node_id)
        for piece in pack(ranges, options.split_bytes)
    ]


def tasks_before(options: MetadataOptions, end: Offset) -> list[MetadataTask]:
    """Plans the reading of everything below `end`: the snapshot at the beginning of the log, and the log up to `end`.
    Raises DataUnreadable.
    """
    if options.cluster is not None:
        live = survey_quorum(options.cluster)
        piece = ControllerRange(options.cluster, live.leader_id, live.start_offset, end)
        return [MetadataTask((piece,), live.high_watermark, live.snapshot, live.leader_id)]
    log = choose_log(find_metadata_logs(options.paths, options.storage_options))
    ranges = tuple(split(log.replica, log.start_offset, end, MAX_OFFSET))
    return [MetadataTask(ranges, None, base_snapshot(log), log.found.node_id)]
