"""``python -m spdelaw``: the shell command without its script."""

from spdelaw.cli import main

if __name__ == "__main__":
    main()
