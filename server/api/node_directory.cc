#include "server/api/node_directory.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/near_match.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr size_t kMaxNameBytes = 253;
constexpr size_t kMaxListedIds = 5;

bool ByHostname(const NodeRecord& a, const NodeRecord& b) {
  return std::tie(a.node.hostname, a.node.id) < std::tie(b.node.hostname, b.node.id);
}

bool IsWordByte(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_'; }

absl::Status CheckName(absl::string_view name) {
  if (name.empty()) return absl::InvalidArgumentError("node is empty; give a node id or a hostname.");
  if (name.size() <= kMaxNameBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("node is ", name.size(), " bytes long; at most ", kMaxNameBytes, " are allowed."));
}

absl::Status Ambiguous(absl::string_view hostname, const std::vector<std::string>& ids) {
  const auto end = ids.begin() + static_cast<std::ptrdiff_t>(std::min(ids.size(), kMaxListedIds));
  return absl::InvalidArgumentError(absl::StrCat("hostname \"", EscapeControl(hostname), "\" belongs to ",
                                                 ids.size(), " nodes; use one of the ids ",
                                                 absl::StrJoin(ids.begin(), end, ", "), "."));
}

}  // namespace

NodeDirectory::NodeDirectory(std::vector<NodeRecord> nodes, std::set<std::string> connected)
    : nodes_(std::move(nodes)), connected_(std::move(connected)) {
  std::sort(nodes_.begin(), nodes_.end(), ByHostname);
  for (size_t i = 0; i < nodes_.size(); ++i) by_id_.emplace(nodes_[i].node.id, i);
}

const NodeRecord* NodeDirectory::ById(absl::string_view node_id) const {
  const auto found = by_id_.find(std::string(node_id));
  return found == by_id_.end() ? nullptr : &nodes_[found->second];
}

std::string NodeDirectory::HostnameOf(absl::string_view node_id) const {
  const NodeRecord* record = ById(node_id);
  return record == nullptr ? std::string(node_id) : record->node.hostname;
}

absl::StatusOr<const NodeRecord*> NodeDirectory::Find(absl::string_view name) const {
  if (absl::Status status = CheckName(name); !status.ok()) return status;
  if (const NodeRecord* record = ById(name)) return record;
  const std::vector<const NodeRecord*> named = Named(name);
  if (named.size() == 1) return named[0];
  std::vector<std::string> ids;
  std::vector<const NodeRecord*> present;
  for (const NodeRecord* record : named) {
    ids.push_back(record->node.id);
    if (connected_.count(record->node.id) != 0) present.push_back(record);
  }
  if (present.size() == 1) return present[0];
  if (ids.size() > 1) return Ambiguous(name, ids);
  std::vector<std::string> hostnames;
  for (const NodeRecord& record : nodes_) hostnames.push_back(record.node.hostname);
  return absl::NotFoundError(absl::StrCat("no node \"", EscapeControl(name), "\" among ", nodes_.size(),
                                          " known nodes.", DidYouMean(NearMatches(name, hostnames))));
}

std::vector<const NodeRecord*> NodeDirectory::Named(absl::string_view hostname) const {
  std::vector<const NodeRecord*> named;
  for (const NodeRecord& record : nodes_) {
    if (record.node.hostname == hostname) named.push_back(&record);
  }
  return named;
}

std::string NodeDirectory::WithHostnames(absl::string_view text) const {
  std::string out;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = at;
    while (end < text.size() && IsWordByte(text[end])) ++end;
    if (end == at) {
      out.push_back(text[at++]);
      continue;
    }
    out += HostnameOf(text.substr(at, end - at));
    at = end;
  }
  return out;
}

}  // namespace weft
