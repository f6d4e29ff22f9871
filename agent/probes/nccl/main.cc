// weft-probe-nccl: reads one ProbeRequest on descriptor 0 and answers on descriptor 3. Run by the agent.
#include "agent/probes/nccl/probe.h"

int main() { weft::ServeProbe("weft-probe-nccl", weft::v1::ProbeSpec::kNccl, weft::nccl::RunProbe); }
