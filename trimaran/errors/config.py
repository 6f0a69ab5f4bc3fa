"""A wrong value of a configuration, as an error for people."""

from __future__ import annotations

from trimaran.errors.user_error import Exit, UserError
from trimaran.node.config.config_def import ConfigError


def of_config(error: ConfigError) -> UserError:
    """Names the key, its value, the place where it was written, and what would be right."""
    where = f" ({error.origin})" if error.origin else ""
    return UserError(
        f"the configuration is wrong: {error.key}={error.value}{where}",
        error.why,
        error.fix or "correct the value",
        exit_code=Exit.USAGE,
    )
