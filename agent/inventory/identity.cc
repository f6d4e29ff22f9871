#include "agent/inventory/identity.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent/inventory/sysfs.h"
#include "base/file.h"
#include "base/id.h"

namespace weft {
namespace {

// Boards whose vendor never set the UUID; seen on many machines each.
constexpr absl::string_view kPlaceholders[] = {"00000000-0000-0000-0000-000000000000",
                                               "ffffffff-ffff-ffff-ffff-ffffffffffff",
                                               "03000200-0400-0500-0006-000700080009",
                                               "not settable",
                                               "not present",
                                               "not specified",
                                               "n/a"};

std::string WithoutPlaceholder(std::string mark) {
  absl::AsciiStrToLower(&mark);
  const bool placeholder =
      std::find(std::begin(kPlaceholders), std::end(kPlaceholders), mark) != std::end(kPlaceholders);
  return placeholder ? "" : mark;
}

std::string Serialize(const std::string& id, const MachineFingerprint& machine) {
  return absl::StrCat("node_id=", id, "\ndmi_product_uuid=", machine.dmi_product_uuid,
                      "\nmachine_id=", machine.machine_id, "\n");
}

std::map<std::string, std::string> Parse(const std::string& text) {
  std::map<std::string, std::string> out;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> kv = absl::StrSplit(line, absl::MaxSplits('=', 1));
    out[kv.first] = kv.second;
  }
  return out;
}

bool IsUuid(const std::string& id) {
  return id.size() == 36 && std::all_of(id.begin(), id.end(), [](char c) {
           return c == '-' || absl::ascii_isxdigit(static_cast<unsigned char>(c));
         });
}

absl::Status Cloned(const std::string& path) {
  return absl::FailedPreconditionError(absl::StrCat(
      path,
      " was made on another machine: this disk or image is a copy. If this is a new node, remove that file "
      "and the spool folder beside it and start again; if the old machine's board was replaced, remove only "
      "its dmi_product_uuid and machine_id lines"));
}

}  // namespace

MachineFingerprint ReadMachineFingerprint(const std::string& root) {
  return {WithoutPlaceholder(ReadSysfsText(root + "/sys/class/dmi/id/product_uuid")),
          WithoutPlaceholder(ReadSysfsText(root + "/etc/machine-id"))};
}

bool SameMachine(const MachineFingerprint& made_on, const MachineFingerprint& now) {
  if (!made_on.dmi_product_uuid.empty() && !now.dmi_product_uuid.empty())
    return made_on.dmi_product_uuid == now.dmi_product_uuid;
  if (!made_on.machine_id.empty() && !now.machine_id.empty()) return made_on.machine_id == now.machine_id;
  return true;
}

absl::StatusOr<std::string> LoadOrMakeNodeId(const std::string& state_dir,
                                             const MachineFingerprint& machine) {
  const absl::Status made = MakeFolders(state_dir);
  if (!made.ok()) return made;
  const std::string path = state_dir + "/node_id";
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) {
    const std::string id = RandomUuid();
    const absl::Status written = WriteFileDurably(path, Serialize(id, machine));
    if (!written.ok()) return written;
    return id;
  }
  if (!text.ok()) return text.status();
  std::map<std::string, std::string> fields = Parse(*text);
  if (!IsUuid(fields["node_id"]))
    return absl::DataLossError(absl::StrCat(
        path,
        " is damaged; write node_id=<the id that `weft node list` shows> into it, or remove it to join as a "
        "new node"));
  if (!SameMachine({fields["dmi_product_uuid"], fields["machine_id"]}, machine)) return Cloned(path);
  return fields["node_id"];
}

std::string ReadBootId(const std::string& root) {
  return ReadSysfsText(root + "/proc/sys/kernel/random/boot_id");
}

}  // namespace weft
