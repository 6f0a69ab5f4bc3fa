"""A user-facing error for an invalid config value."""

from __future__ import annotations

from trimaran.errors.user_error import Exit, UserError
from trimaran.node.config.config_def import ConfigError


def of_config(error: ConfigError) -> UserError:
    """Returns an error with the key, its value, its place, and the valid values."""
    where = f" ({error.origin})" if error.origin else ""
    return UserError(
        f"the configuration is wrong: {error.key}={error.value}{where}",
        error.why,
        error.fix or "correct the value",
        exit_code=Exit.USAGE,
    )
