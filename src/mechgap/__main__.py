"""`python -m mechgap`, where the command is not installed."""

from mechgap.cli import main

main()
