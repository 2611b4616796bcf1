"""``python -m engine``, and ``continuous``."""

import sys

try:  # it takes a moment, in which Ctrl-C may come
    from engine.commands.command_line import main
except KeyboardInterrupt:
    sys.exit(130)

if __name__ == "__main__":
    sys.exit(main())
