#include "tuner/trial/check_result.h"

#include <cmath>
#include <cstdio>

namespace mptune::tuner {

std::vector<std::string> parts_without_time(const CheckResult& result) {
  std::vector<std::string> names;
  for (const CheckPart& part : result.parts)
    if (part.no_time) names.push_back(part.name);
  return names;
}

const CheckPart* first_failure(const CheckResult& result) {
  for (const CheckPart& part : result.parts)
    if (part.difference) return &part;
  return nullptr;
}

std::string difference_text(const CheckPart& part) {
  const CheckDifference& difference = *part.difference;
  std::string text = "the " + difference.what;
  if (!difference.layer_name.empty()) text += (difference.is_output ? " of layer " : " in layer ") + difference.layer_name;
  if (std::isfinite(difference.relative)) {
    char number[32];
    std::snprintf(number, sizeof number, "%.2g", difference.relative);
    text += std::string(" differs by ") + number + " of its largest value";
  } else {
    text += " differs in shape or is not finite";
  }
  return difference.operation.empty() ? text : text + ": " + difference.operation;
}

}  // namespace mptune::tuner
