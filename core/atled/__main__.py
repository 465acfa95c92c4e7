"""`python -m atled VERB`."""

import sys

from atled.commands import main

if __name__ == "__main__":
    sys.exit(main())
