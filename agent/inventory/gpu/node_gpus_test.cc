#include "agent/inventory/gpu/node_gpus.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

TEST(NodeGpusTest, GpusOfTheDriverMeetThoseOfTheBus) {
  v1::Node node;
  node.add_gpus()->set_pci_address("0000:19:00.0");
  node.mutable_gpus(0)->set_model("H200 by the bus");
  node.add_gpus()->set_pci_address("0000:1a:00.0");
  v1::GpuReport report;
  report.set_cuda_version("13.0");
  for (const char* address : {"0000:1a:00.0", "0000:1b:00.0"}) {
    v1::Gpu* gpu = report.add_gpus();
    gpu->set_pci_address(address);
    gpu->set_uuid("GPU-1");
    gpu->mutable_facts()->set_pcie_width(16);
  }
  v1::GpuSource source;
  source.set_problem("GPU 0 of 3 cannot be reached");
  AddGpuReport(report, source, &node);
  ASSERT_EQ(node.gpus_size(), 3);
  EXPECT_FALSE(node.gpus(0).has_facts()) << "a GPU that the driver does not show has no facts";
  EXPECT_EQ(node.gpus(0).model(), "H200 by the bus");
  EXPECT_EQ(node.gpus(1).facts().pcie_width(), 16u);
  EXPECT_EQ(node.gpus(1).uuid(), "GPU-1");
  EXPECT_EQ(node.gpus(2).pci_address(), "0000:1b:00.0");
  EXPECT_EQ(node.gpu_source().problem(), "GPU 0 of 3 cannot be reached");
  EXPECT_EQ(node.versions().at("cuda"), "13.0");
  EXPECT_EQ(node.versions().count("nvml"), 0u);
}

}  // namespace
}  // namespace weft
