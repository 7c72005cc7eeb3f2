"""``python -m optrace`` is the command ``optrace``."""

from optrace.cli import main

if __name__ == "__main__":
    main()
