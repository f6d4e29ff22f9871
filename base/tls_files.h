// Certificates and keys of mutual TLS, read and checked before gRPC gets them: it only says that a connection
// cannot be made. Any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace weft {

// PEM texts, not paths.
struct TlsMaterial {
  std::string certificate_chain;
  std::string private_key;
  std::string ca;
};

// An empty path leaves its text empty. kNotFound or kPermissionDenied for a file that cannot be read;
// kInvalidArgument, naming the file, for one that holds no PEM certificate, no PEM key (or one with a
// passphrase), or a key that does not belong to the certificate.
absl::StatusOr<TlsMaterial> ReadTlsFiles(const std::string& certificate_file, const std::string& key_file,
                                         const std::string& ca_file);

}  // namespace weft
