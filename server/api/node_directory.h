// The fleet's nodes by id and hostname at one moment. A value.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "fleet/node.h"

namespace weft {

class NodeDirectory {
 public:
  // `connected`: ids of the nodes whose agents are.
  explicit NodeDirectory(std::vector<NodeRecord> nodes, std::set<std::string> connected = {});

  // Ordered by hostname, then id.
  const std::vector<NodeRecord>& nodes() const { return nodes_; }
  // Null if unknown. Lives as long as the directory.
  const NodeRecord* ById(absl::string_view node_id) const;
  // The current hostname, or the id itself when the node is unknown.
  std::string HostnameOf(absl::string_view node_id) const;
  // By id, else by hostname; of several nodes of that name the only one that is connected: the others were
  // the same machine before it was set up anew. kInvalidArgument: empty, longer than 253 bytes, or a hostname
  // that several nodes share otherwise (the message lists their ids); kNotFound: none, with near hostnames.
  absl::StatusOr<const NodeRecord*> Find(absl::string_view id_or_hostname) const;
  // All of that hostname, by id.
  std::vector<const NodeRecord*> Named(absl::string_view hostname) const;
  // `text` with each whole word that is a node id replaced by the hostname.
  std::string WithHostnames(absl::string_view text) const;

 private:
  std::vector<NodeRecord> nodes_;
  std::set<std::string> connected_;
  std::map<std::string, size_t, std::less<>> by_id_;  // index into nodes_
};

}  // namespace weft
