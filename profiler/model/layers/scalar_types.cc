#include "profiler/model/layers/scalar_types.h"

#include "profiler/base/text.h"

namespace mptune::profiler {

const std::vector<ScalarTypeNames>& scalar_types() {
  static const std::vector<ScalarTypeNames> table = {
      {at::kFloat, "float32", "FloatStorage"}, {at::kDouble, "float64", "DoubleStorage"},
      {at::kHalf, "float16", "HalfStorage"},   {at::kBFloat16, "bfloat16", "BFloat16Storage"},
      {at::kLong, "int64", "LongStorage"},     {at::kInt, "int32", "IntStorage"},
      {at::kShort, "int16", "ShortStorage"},   {at::kChar, "int8", "CharStorage"},
      {at::kByte, "uint8", "ByteStorage"},     {at::kBool, "bool", "BoolStorage"},
  };
  return table;
}

std::string scalar_type_name(at::ScalarType type) {
  for (const auto& names : scalar_types())
    if (names.type == type) return names.name;
  return c10::toString(type);
}

std::optional<at::ScalarType> scalar_type_by_name(const std::string& name) {
  for (const auto& names : scalar_types())
    if (names.name == name) return names.type;
  return std::nullopt;
}

std::string tensor_text(at::IntArrayRef sizes, at::ScalarType type) {
  return (sizes.empty() ? "scalar" : shape_text(sizes)) + ":" + scalar_type_name(type);
}

}  // namespace mptune::profiler
