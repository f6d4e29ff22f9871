#include <clocale>
#include <cstdlib>

#include "cli/app.h"

int main(int argc, char** argv) {
  std::setlocale(LC_ALL, "");
  // What gRPC would write to standard error is said by weft, once and in its own words. Who looks for a fault
  // in gRPC sets another level.
  setenv("GRPC_VERBOSITY", "NONE", 0);
  return weft::cli::Main(argc, argv);
}
