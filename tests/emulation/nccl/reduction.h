#pragma once

#include <cstddef>
#include <vector>

#include "tests/emulation/nccl/nccl_api.h"
#include "tests/emulation/nccl/operation.h"

namespace emulation {

/// Sums (products, ...) of the members' numbers, taken in the order of the members.
class Reduction {
 public:
  Reduction(const Operation& operation, int members);

  /// Into `result`, which is none of `inputs`. `inputs`: one for each member.
  void reduce(const std::vector<const void*>& inputs, void* result, std::size_t count) const;

 private:
  void take(const void* input, void* to, std::size_t count) const;

  ncclDataType_t type_;
  ncclRedOp_t operation_;  ///< of two numbers
  int members_;
  std::vector<char> scalar_;  ///< each input is multiplied by it first; may be empty
  bool divides_ = false;      ///< by the number of members, at the end
};

}  // namespace emulation
