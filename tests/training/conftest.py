"""These tests need packages of their own: `make training` makes an environment with them, and runs them there."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

collect_ignore_glob = [] if os.environ.get("NEUROGC_SUITE") == "training" else ["test_*.py"]
