// A library that is opened at run time, so that the program starts on machines that lack it. Any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace weft {

// Never closed: drivers do not survive it.
class SharedLibrary {
 public:
  // `name` is a path or a name for the loader's search. kNotFound, with the loader's words.
  static absl::StatusOr<SharedLibrary> Open(const std::string& name);
  // Null when the library does not have it.
  void* Find(const char* symbol) const;
  // File that `symbol` came from, links resolved; empty if unknown.
  static std::string FileOf(void* symbol);

 private:
  explicit SharedLibrary(void* handle) : handle_(handle) {}
  void* handle_;
};

}  // namespace weft
