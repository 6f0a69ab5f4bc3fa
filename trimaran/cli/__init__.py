"""The command line. `main` is the entry point; commands are imported when they are called."""


def main() -> None:
    """Entry point of the `trimaran` script."""
    from trimaran.cli.app import run

    run()
