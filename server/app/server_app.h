// weft-server as one object: owns all parts, starts them in order, stops them in reverse.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "weft/v1/config.pb.h"

namespace weft {

class ServerApp {
 public:
  // What can be known of the configuration without starting: addresses, and that certificates, keys and
  // secrets can be read and are what they should be. kInvalidArgument, kNotFound or kPermissionDenied, naming
  // what.
  static absl::Status Check(const v1::ServerConfig& config);
  // Opens the store, restores what it remembers, and listens. `config` has passed CompleteServerConfig.
  static absl::StatusOr<std::unique_ptr<ServerApp>> Start(const v1::ServerConfig& config, Clock& clock);
  // Stops: no new streams, parts in reverse order, all that was acknowledged is on disk.
  ~ServerApp();

  // The addresses that are really bound.
  std::string grpc_address() const;
  std::string http_address() const;

  // True once the server cannot go on by itself, e.g. when its own port no longer answers; the process should
  // exit and be started again.
  bool failed() const;

 private:
  struct Parts;
  explicit ServerApp(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace weft
