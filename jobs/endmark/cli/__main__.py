"""`python -m endmark.cli` is the command `endmark`."""

from endmark.cli.app import main

main()
