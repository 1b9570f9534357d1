"""`python -m mechgap`, where the command is not installed."""

from mechgap.cli import main

if __name__ == "__main__":
    main()
