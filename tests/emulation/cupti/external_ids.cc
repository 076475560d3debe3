#include "tests/emulation/cupti/external_ids.h"

#include <array>

namespace emulation::cupti {

namespace {

using Stacks = std::array<std::vector<std::uint64_t>, CUPTI_EXTERNAL_CORRELATION_KIND_SIZE>;

// Not deleted with its thread, whose other destructors may still call CUDA.
Stacks& stacks() {
  static thread_local Stacks* const object = new Stacks;
  return *object;
}

}  // namespace

bool is_external_kind(CUpti_ExternalCorrelationKind kind) {
  return kind > CUPTI_EXTERNAL_CORRELATION_KIND_INVALID && kind < CUPTI_EXTERNAL_CORRELATION_KIND_SIZE;
}

void push_external_id(CUpti_ExternalCorrelationKind kind, std::uint64_t id) {
  stacks()[kind].push_back(id);
}

std::optional<std::uint64_t> pop_external_id(CUpti_ExternalCorrelationKind kind) {
  std::vector<std::uint64_t>& stack = stacks()[kind];
  if (stack.empty()) return std::nullopt;
  const std::uint64_t last = stack.back();
  stack.pop_back();
  return last;
}

std::vector<std::pair<CUpti_ExternalCorrelationKind, std::uint64_t>> external_ids() {
  std::vector<std::pair<CUpti_ExternalCorrelationKind, std::uint64_t>> ids;
  for (std::size_t kind = 1; kind < stacks().size(); ++kind)
    if (!stacks()[kind].empty()) ids.emplace_back(static_cast<CUpti_ExternalCorrelationKind>(kind), stacks()[kind].back());
  return ids;
}

}  // namespace emulation::cupti
