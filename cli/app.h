// The whole command line: parse, run, exit code.
#pragma once

namespace weft::cli {

// Reads standard environment and flags, talks to the server, prints. Returns the exit code (exit_code.h).
int Main(int argc, const char* const* argv);

}  // namespace weft::cli
