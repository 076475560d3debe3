#include "profiler/model/layers/input_text.h"

#include "profiler/base/error.h"
#include "profiler/base/text.h"
#include "profiler/model/layers/scalar_types.h"

namespace mptune::profiler {

std::optional<InputText> parse_input(const std::string& text, const std::string& expected) {
  if (text.empty()) return std::nullopt;
  constexpr std::int64_t kMostSize = 1 << 24;
  InputText result;
  const auto colon = text.find(':');
  for (const auto& part : split(text.substr(0, colon), 'x')) {
    const auto size = integer(part);
    if (!size || *size < 1 || *size > kMostSize) throw Error("'" + text + "' is not a shape", "--input", expected);
    result.shape.push_back(*size);
  }
  if (colon != std::string::npos) {
    result.type = scalar_type_by_name(text.substr(colon + 1));
    if (!result.type) throw Error("unknown element type '" + text.substr(colon + 1) + "'", "--input", expected);
  }
  return result;
}

}  // namespace mptune::profiler
