"""Makes ``cases_page`` and ``reported_cases`` importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
