#include "tests/emulation/machine/parts.h"

#include <algorithm>
#include <atomic>

namespace emulation {

namespace {

constexpr std::uint32_t kFirstContextId = 100;
std::atomic<std::uint32_t> next_context = kFirstContextId;

}  // namespace

Division divide(const SmRange& all, int least, int most) {
  const int wanted = std::max(least, kLeastSmsOfPart);
  const int each = (wanted + kSmsOfPartAreMultipleOf - 1) / kSmsOfPartAreMultipleOf * kSmsOfPartAreMultipleOf;
  int count = all.count / each;
  if (most > 0) count = std::min(count, most);
  Division division;
  for (int i = 0; i < count; ++i) division.groups.push_back({all.first + i * each, each});
  division.rest = {all.first + count * each, all.count - count * each};
  return division;
}

Context* make_part(int gpu, const SmRange& sms) {
  return new Context{gpu, next_context++, sms};
}

}  // namespace emulation
