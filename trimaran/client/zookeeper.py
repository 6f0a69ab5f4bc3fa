"""Access to ZooKeeper and the mirror: the settings in a file, and failures of `zkcompat/` as user-facing errors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from trimaran.errors.user_error import Exit, UserError
from trimaran.settings.properties import read_file, resolved
from trimaran.wire.client.errors import AuthenticationRefused
from trimaran.wire.later import imported_later
from trimaran.zkcompat.zookeeper.server_process import ZooKeeperUnavailableError

if TYPE_CHECKING:
    from trimaran.zkcompat.commands import errors
else:
    errors = imported_later("trimaran.zkcompat.commands.errors")

_OF_SASL = "correct sasl.mechanism, and user and password of sasl.jaas.config, in the file of -c"
_OF_TLS = (
    "the controllers must show a valid certificate for that name, of an authority in ssl.truststore.location in the "
    "file of -c"
)
_WHERE_IT_BREAKS = (
    "does security.protocol in the file of -c fit that listener? TLS may also want a certificate of ours: "
    "ssl.keystore.location"
)


@contextmanager
def explained() -> Iterator[None]:
    """Turns failures of `zkcompat/` into user-facing errors."""
    try:
        yield
    except ZooKeeperUnavailableError as error:
        raise UserError("cannot start ZooKeeper", str(error), error.fix) from error
    except errors.ZooKeeperUnreachableError as error:
        raise UserError(
            "ZooKeeper does not answer",
            str(error),
            "check that it is running (trimaran ps), or name another with -z HOST:PORT",
            exit_code=Exit.CANNOT_CONNECT,
        ) from error
    except errors.ZNodeRefusedError as error:
        raise UserError(
            "ZooKeeper refused access",
            str(error),
            "name a user with permission in the file of -c: trimaran.zk.auth or trimaran.zk.sasl.jaas.config",
            exit_code=Exit.REFUSED,
        ) from error
    except errors.QuorumUnreachableError as error:
        raise UserError(
            "the quorum does not answer",
            str(error),
            _WHERE_IT_BREAKS
            if " broke: " in str(error)
            else "check it with trimaran quorum status, or name another with -B HOST:PORT",
            exit_code=Exit.CANNOT_CONNECT,
        ) from error
    except AuthenticationRefused as error:
        raise UserError(
            "the controllers refused access",
            str(error),
            _OF_TLS if "TLS with" in str(error) else _OF_SASL,
            exit_code=Exit.REFUSED,
        ) from error
    except errors.MirrorLockedError as error:
        raise UserError(
            "another mirror is running here",
            str(error),
            "stop it, or give this one another --state",
        ) from error
    except errors.ZooKeeperTooOldError as error:
        raise UserError(
            "this ZooKeeper is too old",
            str(error),
            "upgrade its servers to ZooKeeper 3.6 or newer, or name another with -z HOST:PORT",
            exit_code=Exit.REFUSED,
        ) from error
    except errors.WrongClusterError as error:
        raise UserError(
            "this ZooKeeper mirrors another cluster",
            str(error),
            "use another ZooKeeper, or a chroot: -z HOST:PORT/path",
        ) from error
    except ValueError as error:
        raise UserError(
            "an argument is wrong",
            str(error),
            "addresses are written HOST:PORT",
            exit_code=Exit.USAGE,
        ) from error


def properties_of(config: Path | None) -> dict[str, str]:
    """Returns the settings in the file. Raises UserError."""
    if config is None:
        return {}
    return {key: setting.value for key, setting in resolved(read_file(config), os.environ).items()}
