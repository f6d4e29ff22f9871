// Who this node is: an id made once, and the machine that it was made on.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace weft {

// What tells one machine from another. Empty: unknown (unreadable, or a placeholder of the vendor).
struct MachineFingerprint {
  std::string dmi_product_uuid;  // only root may read it
  std::string machine_id;
  bool operator==(const MachineFingerprint&) const = default;
};

// Reads the fingerprint below `root` ("/" on a real machine). Never fails. Any thread.
MachineFingerprint ReadMachineFingerprint(const std::string& root);

// True unless both know the same kind of mark and it differs. The DMI mark decides where both have it: the
// machine id of a reinstalled system is new, that of a cloned disk is not.
bool SameMachine(const MachineFingerprint& made_on, const MachineFingerprint& now);

// The node id kept in `state_dir`/node_id, made on the first call, durably; survives changes of the hostname.
// kFailedPrecondition when the file was made on another machine (a cloned disk), kDataLoss when it is
// damaged, otherwise an errno's code. One caller at a time.
absl::StatusOr<std::string> LoadOrMakeNodeId(const std::string& state_dir, const MachineFingerprint& machine);

// Random per boot of the operating system; empty if unknown.
std::string ReadBootId(const std::string& root);

}  // namespace weft
