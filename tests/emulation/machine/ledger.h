#pragma once

/// EMULATED_LEDGER, a file: a line for each finished kernel, copy and fill, in the order in which they ended:
///
///     pid,kind,name,gpu,stream,context,begin ns,end ns,bytes,source gpu,destination gpu,correlation
///     4711,kernel,"aten::mm",0,13,1,1000,2000,0,-1,-1,17
///
/// Times are of the GPUs' clock; -1 is the host. Processes may share a file.

#include "tests/emulation/machine/machine.h"

namespace emulation {

[[nodiscard]] bool has_ledger();
void write_to_ledger(const WorkRecord& work);

}  // namespace emulation
