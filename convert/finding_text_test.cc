#include "convert/finding_text.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace weft {
namespace {

v1::Finding Of(v1::FindingScope scope, std::vector<std::string> hostnames, const std::string& part) {
  v1::Finding finding;
  finding.set_scope(scope);
  for (const std::string& name : hostnames) {
    finding.add_node_ids("id-" + name);
    finding.add_hostnames(name);
  }
  finding.set_part(part);
  finding.set_summary("bandwidth fell");
  return finding;
}

TEST(FindingTextTest, ASummaryNamesItsSubject) {
  EXPECT_EQ(SummaryWithSubject(Of(v1::FINDING_SCOPE_NODE, {"gpu017"}, "")), "gpu017: bandwidth fell");
  EXPECT_EQ(SummaryWithSubject(Of(v1::FINDING_SCOPE_NIC, {"gpu017"}, "mlx5_0")),
            "gpu017 mlx5_0: bandwidth fell");
  EXPECT_EQ(SummaryWithSubject(Of(v1::FINDING_SCOPE_PAIR, {"a", "b"}, "")), "a - b: bandwidth fell");
  EXPECT_EQ(SummaryWithSubject(Of(v1::FINDING_SCOPE_LEAF, {"a", "b"}, "leaf-07")), "leaf-07: bandwidth fell");
  EXPECT_EQ(SummaryWithSubject(Of(v1::FINDING_SCOPE_FLEET, {}, "cohort")), "fleet: bandwidth fell");
}

TEST(FindingTextTest, ANodeWithoutAKnownHostnameGoesByItsId) {
  v1::Finding finding = Of(v1::FINDING_SCOPE_NODE, {"gpu017"}, "");
  finding.set_hostnames(0, "");
  EXPECT_EQ(SummaryWithSubject(finding), "id-gpu017: bandwidth fell");
  finding.clear_hostnames();
  EXPECT_EQ(SummaryWithSubject(finding), "id-gpu017: bandwidth fell");
}

}  // namespace
}  // namespace weft
