#include "tests/emulation/nccl/reduction.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/emulation/nccl/numbers.h"

namespace emulation {

Reduction::Reduction(const Operation& operation, int members)
    : type_(operation.type), operation_(operation.reduction >= ncclAvg ? ncclSum : operation.reduction), members_(members) {
  if (operation.reduction == ncclAvg && !is_floating(type_)) divides_ = true;
  if (operation.reduction == ncclAvg && is_floating(type_)) {
    scalar_.resize(bytes_of(type_));
    set_number(type_, scalar_.data(), 1.0 / members);
  }
  if (operation.reduction < ncclNumOps) return;
  scalar_ = operation.scaled.scalar;
  if (const auto* on_device = static_cast<const char*>(operation.scaled.on_device); on_device != nullptr)
    scalar_.assign(on_device, on_device + bytes_of(type_));
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
