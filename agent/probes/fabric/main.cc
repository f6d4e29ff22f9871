// weft-probe-fabric: reads one ProbeRequest on descriptor 0 and answers on descriptor 3. Run by the agent.
#include "agent/probes/fabric/probe.h"

int main() { weft::ServeProbe("weft-probe-fabric", weft::v1::ProbeSpec::kFabric, weft::fabric::RunProbe); }
