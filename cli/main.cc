#include <clocale>

#include "cli/app.h"

int main(int argc, char** argv) {
  std::setlocale(LC_ALL, "");
  return weft::cli::Main(argc, argv);
}
