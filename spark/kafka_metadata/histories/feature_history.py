"""`feature_history`: the levels of features, including `metadata.version` and `kraft.version`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from trimaran.quorum.metadata.versions import KRAFT_VERSION, METADATA_VERSION, release_name
from trimaran.spark.data_source.columns import INT, STRING, Column, field
from trimaran.spark.kafka_metadata.log_walk.fold import EventFold, folded, moment_columns
from trimaran.spark.kafka_metadata.log_walk.walk import Moment, WalkStep
from trimaran.wire.messages.control import KRaftVersionRecord
from trimaran.wire.records.features import FeatureLevelRecord
from trimaran.wire.schema import Message

# fmt: off
COLUMNS = (
    *moment_columns(),
    Column("name", STRING, field("name"), "the feature", "FeatureLevelRecord.name, KRaftVersionRecord"),
    Column("old_level", INT, field("old"), "the level before; null: none"),
    Column("new_level", INT, field("new"), "the level after; 0: removed", "FeatureLevelRecord.featureLevel"),
    Column("release", STRING, field("release"), "Kafka's name of a level of metadata.version, such as 4.3-IV0"),
    Column("event", STRING, field("event"), "set, upgraded, downgraded, snapshot"),
)
# fmt: on


class LevelChange(NamedTuple):
    """A row: the level of a feature before and after a record."""

    moment: Moment
    name: str
    old: int | None
    new: int
    event: str

    @property
    def release(self) -> str | None:
        return release_name(self.new) if self.name == METADATA_VERSION else None


class FeatureHistoryFold(EventFold):
    RECORDS: ClassVar[Sequence[type[Message]]] = (FeatureLevelRecord,)
    CONTROL: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._levels: dict[str, int] = {}

    def take(self, step: WalkStep) -> None:
        match step.message:
            case FeatureLevelRecord(name=name, feature_level=level) if name != KRAFT_VERSION:
                self._set(step, name, level)
            case KRaftVersionRecord(kraft_version=level):
                self._set(step, KRAFT_VERSION, level)
            case _:
                pass

    def _set(self, step: WalkStep, name: str, level: int) -> None:
        old = self._levels.get(name)
        self._levels[name] = level
        if level == old or (step.from_snapshot and not self.shows_snapshot):
            return
        event = "set" if old is None else "upgraded" if level > old else "downgraded"
        if step.from_snapshot:
            event = "snapshot"
        self.rows.append(LevelChange(step.moment, name, old, level, event))


TABLE = folded(
    "feature_history",
    "Levels of features, metadata.version and kraft.version among them.",
    COLUMNS,
    FeatureHistoryFold,
)
