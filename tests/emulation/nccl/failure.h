#pragma once

#include <stdexcept>
#include <string>

#include "tests/emulation/nccl/nccl_api.h"

namespace emulation {

/// What a function of NCCL returns, and what ncclGetLastError() says then.
class NcclFailure : public std::runtime_error {
 public:
  NcclFailure(ncclResult_t code, const std::string& what) : std::runtime_error(what), code_(code) {}
  [[nodiscard]] ncclResult_t code() const { return code_; }

 private:
  ncclResult_t code_;
};

/// The communicator was aborted.
struct Stopped {};

/// Another member's process is gone, or it has aborted its communicator.
struct MemberGone {};

}  // namespace emulation
