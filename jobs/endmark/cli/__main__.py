"""`python -m endmark.cli` and the script `endmark` start here, since nothing is imported yet."""

import sys


def main() -> None:
    """Run the command. Ctrl-C ends it without a traceback, also while Python still imports its packages."""
    try:
        from endmark.cli.app import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
