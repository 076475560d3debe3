#pragma once

#include <cstdint>

namespace mptune::profiler {

/// An NVTX push/pop range in the domain "mptune" around a scope. Always emitted; costs nothing if no tool is attached.
/// `name` must outlive the range; `payload` carries (step, stage, micro-batch).
class NvtxRange {
 public:
  NvtxRange(const char* name, std::int64_t payload);
  ~NvtxRange();
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

}  // namespace mptune::profiler
