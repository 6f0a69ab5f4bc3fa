"""Named log lines of the ZooKeeper mirror. See `trimaran.wire.text.events`."""

from __future__ import annotations

import logging

from trimaran.wire.text.events import Event

_I, _W, _E = logging.INFO, logging.WARNING, logging.ERROR
CONSUMER_OFFSETS_LOST_ZOOKEEPER = Event(
    "consumer_offsets.lost_zookeeper",
    _W,
    "Lost ZooKeeper (%(connect)s): old consumers cannot commit until it is back",
    "Commits of old consumers are refused.",
)
CONSUMER_OFFSETS_NO_NUMBER = Event(
    "consumer_offsets.no_number",
    _W,
    "%(path)s is no offset",
    "A consumer's znode contains no offset. It is skipped.",
)
CONSUMER_OFFSETS_NO_ZOOKEEPER = Event(
    "consumer_offsets.no_zookeeper",
    _W,
    "No ZooKeeper at %(connect)s: old consumers cannot commit; retrying",
    "Commits of old consumers are refused.",
)
MIRROR_CLAIM_CHANGED = Event(
    "mirror.claim_changed",
    _W,
    "%(path)s was changed by another client: making it again",
    "Another client has changed the znode of the claim.",
)
MIRROR_CLAIM_WAITS = Event(
    "mirror.claim_waits", _W, "%(path)s cannot be made again yet: %(error)s", "It is retried."
)
MIRROR_CONNECTION_TURNED_AWAY = Event(
    "mirror.connection_turned_away",
    _W,
    "ZooKeeper serves but turns our connection away: beginning a new one",
    "A new session begins.",
)
MIRROR_FAILED = Event(
    "mirror.failed",
    _E,
    "The mirror ended by a mistake of trimaran; it starts again",
    "Internal error; please report it. The mirror starts again.",
)
MIRROR_HELD_BACK = Event(
    "mirror.held_back",
    _W,
    "Left out, the rest is mirrored: %(refusal)s; trying again later, zk verify names it",
    "ZooKeeper refuses one znode. The rest is mirrored.",
)
MIRROR_INTERRUPTED = Event(
    "mirror.interrupted",
    _W,
    "%(problem)s; %(then)s",
    "The mirror starts over.",
)
MIRROR_LEADS = Event(
    "mirror.leads",
    _I,
    "Claimed controller epoch %(epoch)s for leader %(leader)s",
    "This mirror writes to ZooKeeper from now on.",
)
MIRROR_LOGIN_REFUSED = Event(
    "mirror.login_refused",
    _E,
    "ZooKeeper at %(connect)s refuses the mirror's user: see trimaran.zk.auth and "
    "trimaran.zk.sasl.jaas.config; trying again in %(seconds).0f s",
    "Nothing is mirrored until ZooKeeper accepts the mirror's user.",
)
MIRROR_LOST_ZOOKEEPER = Event(
    "mirror.lost_zookeeper",
    _W,
    "ZooKeeper at %(connect)s %(reason)s; retrying all servers",
    "Nothing is mirrored until it answers.",
)
MIRROR_MENDED = Event(
    "mirror.mended",
    _W,
    "Not as the metadata say, %(operations)d mended: %(paths)s",
    "The tree differed from the metadata.",
)
MIRROR_NOT_REPORTED = Event(
    "mirror.not_reported",
    _W,
    "zk status cannot be told of this mirror: %(error)s",
    "ZooKeeper refuses the znode of the mirror's report.",
)
MIRROR_QUORUM_HEARD = Event(
    "mirror.quorum_heard", _W, "The quorum speaks again", "Missed changes are mirrored now."
)
MIRROR_QUORUM_SILENT = Event(
    "mirror.quorum_silent",
    _W,
    "The quorum has said nothing for %(seconds).0f s: asking all controllers; ZooKeeper shows the state "
    "of offset %(offset)d until then",
    "Later changes are not in ZooKeeper yet.",
)
MIRROR_REFUSED = Event(
    "mirror.refused",
    _E,
    "Nothing is mirrored: %(error)s",
    "The mirror in this controller cannot run as it is configured.",
)
MIRROR_RESYNC = Event(
    "mirror.resync", _I, "Comparing everything, as requested", "zk resync requested it."
)
MIRROR_RESYNC_REQUEST_STAYS = Event(
    "mirror.resync_request_stays",
    _W,
    "The request for a resynchronisation stays: %(error)s",
    "It is removed later.",
)
MIRROR_RETRYING = Event(
    "mirror.retrying",
    _W,
    "%(error)s; retrying",
    "ZooKeeper or the quorum does not respond yet.",
)
MIRROR_SESSION = Event(
    "mirror.session",
    _I,
    "ZooKeeper session %(session)#x at %(connect)s",
    "The mirror is connected.",
)
MIRROR_SESSION_NOT_KEPT = Event(
    "mirror.session_not_kept",
    _W,
    "The ZooKeeper session cannot be kept in %(path)s: %(error)s",
    "After a restart a new session is used.",
)
MIRROR_STANDS_BY = Event(
    "mirror.stands_by",
    _I,
    "The mirror stands by: another controller leads",
    "The mirror of another controller writes.",
)
MIRROR_TAKES_OVER = Event(
    "mirror.takes_over",
    _W,
    "The other mirror does not write any more: taking over",
    "The mirror that wrote is silent.",
)
MIRROR_TLS_FAILED = Event(
    "mirror.tls_failed",
    _W,
    "TLS with ZooKeeper at %(connect)s failed: %(error)s; %(remedy)s",
    "Nothing is mirrored until the certificates fit.",
)
MIRROR_TREE_CHANGED = Event(
    "mirror.tree_changed",
    _W,
    "The tree was changed by another client (%(problem)s): comparing",
    "Another client has written to the tree. It is compared and repaired.",
)
MIRROR_TREE_UNSETTLED = Event(
    "mirror.tree_unsettled",
    _W,
    "The tree changes while it is compared: %(problem)s",
    "The comparison begins again.",
)
MIRROR_UNKNOWN_RECORDS = Event(
    "mirror.unknown_records",
    _W,
    "The metadata log has %(records)s: the tree may be stale by them; upgrade trimaran",
    "The mirror continues without their changes. Logged once for each type and version.",
)
MIRROR_WAITS_FOR_QUORUM = Event(
    "mirror.waits_for_quorum",
    _W,
    "The quorum has no leader: waiting for a majority of the controllers",
    "ZooKeeper shows the last known state.",
)
MIRROR_WRONG_CLUSTER = Event(
    "mirror.wrong_cluster",
    _E,
    "%(problem)s; %(then)s",
    "ZooKeeper shows another cluster. Nothing is written.",
)
MIRROR_ZOOKEEPER_READS_ONLY = Event(
    "mirror.zookeeper_reads_only",
    _W,
    "ZooKeeper at %(connect)s is read-only: it has no majority; waiting until it has",
    "Nothing is mirrored until a majority of its servers is back.",
)
TOOLS_NOT_OBEYED = Event(
    "tools.not_obeyed",
    _W,
    "Not obeyed: a tool wrote to ZooKeeper to %(order)s (%(reason)s)",
    "The write of an old tool is reverted.",
)
TOOLS_NOT_READ = Event(
    "tools.not_read", _W, "A write of a tool cannot be read: %(error)s", "It is retried."
)
TOOLS_NOT_READABLE = Event(
    "tools.not_readable",
    _W,
    "A write of a tool is missing, or locked: %(error)s",
    "It is retried.",
)
TOOLS_NOT_REMOVED = Event(
    "tools.not_removed",
    _W,
    "A write of a tool cannot be removed: %(error)s",
    "The znode of an old tool stays. Its removal is retried.",
)
TOOLS_NOT_WATCHED = Event(
    "tools.not_watched", _W, "Writes of tools cannot be watched: %(error)s", "It is retried."
)
TOOLS_OBEYED = Event(
    "tools.obeyed",
    _I,
    "Asked the quorum for a tool that wrote to ZooKeeper: %(order)s",
    "The request of an old tool was sent to the quorum.",
)
TOOLS_REFUSALS_LEFT_OUT = Event(
    "tools.refusals_left_out",
    _W,
    "… and %(count)d refusals more",
    "They are not logged one by one.",
)
TOOLS_REFUSED = Event(
    "tools.refused",
    _W,
    "Refused what a tool wrote to ZooKeeper: %(order)s",
    "The quorum refuses the request of an old tool.",
)
TOOLS_UNDECIDED = Event(
    "tools.undecided",
    _W,
    "The quorum did not decide (%(error)s); trying again",
    "The request is sent again.",
)
