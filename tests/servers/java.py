"""Options of the tests' Java programs, which run for seconds or minutes."""

from typing import Final

# Compile only what pays before a test ends, and trust the classes of the installed jars. To verify
# them takes a fifth of the CPU time in which a broker starts.
OPTIONS: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)
