"""Options of the tests' Java programs, which run for seconds or minutes."""

from typing import Final

# Compile only what pays before a test ends, and trust the classes of the installed jars. To verify
# them takes a fifth of the CPU time in which a broker starts. Keep all compiled code: with one
# compiler, Java has place for 48 MB, which Spark fills. Then it searches for code to drop, for a
# tenth of its CPU time.
OPTIONS: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
    "-XX:ReservedCodeCacheSize=240m",
)
