"""The command ``raycade``, also ``python -m raycade``."""

from cluster.__main__ import main

if __name__ == "__main__":
    main()
