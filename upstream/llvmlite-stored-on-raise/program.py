"""llvmlite's pass removes a reference that a path that raises has stored for another owner."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from llvmlite_pass import pruned, report

after = pruned((HERE / "stored.ll").read_text())
kept = after.count("call void @NRT_incref(")
report(kept == 0, f"{1 - kept} of 1 increfs removed, the handler stores the value")
