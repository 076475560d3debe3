#pragma once

#include <cstdint>

namespace mptune {

/// An NVTX push/pop range in the domain "mptune" around a scope: always emitted, free of cost where no tool listens.
/// `name` must outlive the range; `payload` carries (step, stage, micro-batch).
class NvtxRange {
 public:
  NvtxRange(const char* name, std::int64_t payload);
  ~NvtxRange();
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

}  // namespace mptune
