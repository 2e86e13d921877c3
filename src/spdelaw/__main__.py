"""``python -m spdelaw``: the shell command without its script."""

from spdelaw.cli.entry import main

if __name__ == "__main__":
    main()
