"""The command line. `main` is the entry point; commands are imported when they are called."""


def main() -> None:
    """Entry point of the `trimaran` script."""
    import sys

    from trimaran.cli.app import run
    from trimaran.cli.connect import take_command_config

    run(take_command_config(sys.argv[1:]))
