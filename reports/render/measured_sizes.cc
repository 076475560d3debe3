#include "reports/render/measured_sizes.h"

#include "profiler/base/memory_format.h"
#include "profiler/base/text.h"

namespace mptune::reports {
namespace {

std::string class_words(const profiler::ClassSizes& sizes) {
  const ExecutionVariant& variant = sizes.variant;
  return sizes.name + (variant.memory_format == MemoryFormat::contiguous ? "" : std::string(" in ") + name_of(variant.memory_format)) +
         (variant.threads == 0 ? "" : " with " + counted(variant.threads, "thread"));
}

std::string samples_words(const std::vector<int>& samples) {
  std::vector<std::string> numbers;
  for (const int size : samples) numbers.push_back(std::to_string(size));
  const std::string last = numbers.back() + (samples.size() == 1 && samples.front() == 1 ? " sample" : " samples");
  numbers.pop_back();
  return numbers.empty() ? last : join(numbers, ", ") + " and " + last;
}

}  // namespace

std::string extrapolated_text(const std::vector<profiler::ClassSizes>& classes) {
  std::vector<std::string> parts;
  for (const profiler::ClassSizes& sizes : classes)
    if (sizes.extrapolated) parts.push_back(class_words(sizes) + " from " + samples_words(sizes.samples));
  return parts.empty() ? "" : "costs of larger micro-batches than were measured are extrapolated: " + join(parts, ", ");
}

planner::Json measured_sizes_json(const std::vector<profiler::ClassSizes>& classes) {
  planner::Json json = planner::Json::array();
  for (const profiler::ClassSizes& sizes : classes)
    json.push_back({{"device_class", sizes.name},
                    {"memory_format", name_of(sizes.variant.memory_format)},
                    {"threads", sizes.variant.threads},
                    {"samples", sizes.samples},
                    {"extrapolated", sizes.extrapolated}});
  return json;
}

}  // namespace mptune::reports
