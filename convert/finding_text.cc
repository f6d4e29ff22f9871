#include "convert/finding_text.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace weft {

std::string SubjectOf(const v1::Finding& finding) {
  if (finding.scope() == v1::FINDING_SCOPE_FLEET) return "fleet";
  std::vector<std::string> names;
  for (int i = 0; i < std::max(finding.hostnames_size(), finding.node_ids_size()); ++i) {
    const bool named = i < finding.hostnames_size() && !finding.hostnames(i).empty();
    names.push_back(named ? finding.hostnames(i) : i < finding.node_ids_size() ? finding.node_ids(i) : "?");
  }
  const std::string nodes = absl::StrJoin(names, " - ");
  const bool part_alone =
      finding.scope() == v1::FINDING_SCOPE_RAIL || finding.scope() == v1::FINDING_SCOPE_LEAF;
  if (finding.part().empty()) return nodes;
  return part_alone || nodes.empty() ? finding.part() : absl::StrCat(nodes, " ", finding.part());
}

std::string SummaryWithSubject(const v1::Finding& finding) {
  const std::string subject = SubjectOf(finding);
  if (subject.empty() || absl::StartsWith(finding.summary(), subject)) return finding.summary();
  return absl::StrCat(subject, ": ", finding.summary());
}

}  // namespace weft
