#pragma once

#include "profiler/device/gpu_communicator.h"

namespace mptune::profiler {

/// Implements GpuLibrary::connector.
[[nodiscard]] const GpuConnector& make_nccl_connector();

}  // namespace mptune::profiler
