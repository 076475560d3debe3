#pragma once

/// What every function of the driver's API begins and ends with.

#include <cuda.h>
#include <cupti_driver_cbid.h>

#include "tests/emulation/machine/gpus.h"
#include "tests/emulation/machine/machine.h"
#include "tests/emulation/machine/status.h"

// cuda.h defines function names as macros for their newest versions: their CUPTI numbers have the name after expansion.
#define EMULATION_DRIVER_ID_OF(name) CUPTI_DRIVER_TRACE_CBID_##name
#define EMULATION_DRIVER_ID(name) EMULATION_DRIVER_ID_OF(name)
#define EMULATED_DRIVER_CALL(name) const emulation::DriverCall call(EMULATION_DRIVER_ID(name))
#define EMULATED_DRIVER_FUNCTION extern "C" EMULATION_EXPORT CUresult CUDAAPI

namespace emulation {

class DriverCall {
 public:
  explicit DriverCall(int id) : call_(Domain::driver, id) {}
  [[nodiscard]] CUresult end(Status status) const { return static_cast<CUresult>(call_.end(status)); }

 private:
  mutable ApiCall call_;
};

}  // namespace emulation
