#include "tests/emulation/nccl/reduction.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/emulation/nccl/numbers.h"

namespace emulation {

Reduction::Reduction(const Communicator& communicator, ncclDataType_t type, ncclRedOp_t operation, int members)
    : type_(type), operation_(operation >= ncclAvg ? ncclSum : operation), members_(members) {
  if (operation == ncclAvg && !is_floating(type)) divides_ = true;
  if (operation == ncclAvg && is_floating(type)) {
    scalar_.resize(bytes_of(type));
    set_number(type, scalar_.data(), 1.0 / members);
  }
  if (operation < ncclNumOps) return;
  const ScaledSum sum = communicator.scaled_sum(operation);
  scalar_ = sum.scalar;
  if (sum.on_device != nullptr)
    scalar_.assign(static_cast<const char*>(sum.on_device), static_cast<const char*>(sum.on_device) + bytes_of(type));
}

void Reduction::take(const void* input, void* to, std::size_t count) const {
  std::memcpy(to, input, count * bytes_of(type_));
  if (!scalar_.empty()) multiply(type_, to, scalar_.data(), count);
}

void Reduction::reduce(const std::vector<const void*>& inputs, void* result, std::size_t count) const {
  std::vector<char> scaled(scalar_.empty() ? 0 : count * bytes_of(type_));
  take(inputs.front(), result, count);
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    const void* input = inputs[i];
    if (!scalar_.empty()) take(std::exchange(input, scaled.data()), scaled.data(), count);
    combine(type_, operation_, result, input, count);
  }
  if (divides_) divide(type_, result, members_, count);
}

}  // namespace emulation
