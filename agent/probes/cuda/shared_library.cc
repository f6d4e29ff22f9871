#include "agent/probes/cuda/shared_library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace weft {

absl::StatusOr<SharedLibrary> SharedLibrary::Open(const std::string& name) {
  void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return SharedLibrary(handle);
  const char* const error = dlerror();
  return absl::NotFoundError(
      absl::StrCat("cannot load ", name, ": ", error != nullptr ? error : "no reason given"));
}

void* SharedLibrary::Find(const char* symbol) const { return dlsym(handle_, symbol); }

std::string SharedLibrary::FileOf(void* symbol) {
  Dl_info info;
  if (symbol == nullptr || dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) return "";
  char* const real = realpath(info.dli_fname, nullptr);
  std::string path = real != nullptr ? real : info.dli_fname;
  std::free(real);
  return path;
}

}  // namespace weft
