#include "profiler/base/sample_range_text.h"

namespace mptune {

std::string text_of(const SampleRange& samples) {
  if (samples.most == 0) return "at least " + std::to_string(samples.least);
  return (samples.most == samples.least ? "" : std::to_string(samples.least) + " to ") + std::to_string(samples.most);
}

}  // namespace mptune
