// weft-probe-gpu-copy: reads one ProbeRequest on descriptor 0 and answers on descriptor 3. Run by the agent.
#include "agent/probes/gpu_copy/probe.h"

int main() {
  weft::ServeProbe("weft-probe-gpu-copy", weft::v1::ProbeSpec::kGpuCopy, weft::gpu_copy::RunProbe);
}
