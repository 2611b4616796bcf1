"""``python -m engine``."""

import sys

from engine.commands.command_line import main

if __name__ == "__main__":
    sys.exit(main())
