"""One record of a topic: its headers, key and value, whole, in every form, and to download."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trimaran.client.reader import PartitionReader
from trimaran.console.page import NotHere, Page, PageRequest
from trimaran.console.pages.messages import ensure_partition, forms_of, row_of
from trimaran.console.record_view import WHOLE_BYTES_MAX, RecordView
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset, TopicPartition

if TYPE_CHECKING:
    from trimaran.log.batches.records import Record
    from trimaran.wire.blocking import BlockingClient

PATH = "/topics/{topic}/messages/{partition:int}/{offset:int}"


def view(question: PageRequest) -> dict[str, Any]:
    forms = forms_of(question, question.path["topic"])
    form = question.choice("as", forms)
    where, offset = place_of(question)
    with question.cluster.client() as client:
        record = record_at(client, where, offset)
    show = RecordView(
        where.topic,
        form,
        question.cluster.codecs,
        bytes_max=WHOLE_BYTES_MAX,
        parsed_bytes_max=WHOLE_BYTES_MAX,
        in_lines=True,
    )
    return {
        "topic": where.topic,
        "shape": form,
        "formats": forms,
        "key_bytes": None if record.key is None else len(record.key),
        "value_bytes": None if record.value is None else len(record.value),
        **row_of(show, where, record),
    }


def place_of(question: PageRequest) -> tuple[TopicPartition, Offset]:
    """Returns the partition and offset that an address names."""
    where = TopicPartition(question.path["topic"], int(question.path["partition"][:10]))
    return where, Offset(question.path["offset"][:18])


def record_at(client: BlockingClient, where: TopicPartition, offset: Offset) -> Record:
    """Returns a record, also of an open transaction. Raises NotHere."""
    ensure_partition(client, where)
    why = "compaction removed it, or it was a marker of a transaction"
    try:
        reader = PartitionReader(client, (), is_committed=False)
        for batch in reader.fetch(where, offset, wait=False):
            for record in batch.records():
                if record.offset == offset:
                    return record
                if record.offset > offset:
                    break
    except KafkaError as error:
        if error.code not in (
            ErrorCode.OFFSET_OUT_OF_RANGE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ):
            raise
        why = f"the broker answers {error.code.name}: it was deleted, or never written"
    raise NotHere(
        f"{where} has no record at offset {offset}",
        why,
        "the messages of the topic show those beside it",
    )


PAGE = Page(PATH, "Message", "message.html", view)
