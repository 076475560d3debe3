#pragma once

#include <optional>
#include <string>
#include <vector>

#include <torch/types.h>

namespace mptune::profiler {

/// Names of an element type: in `--input`, and as the storage class of torch.save.
struct ScalarTypeNames {
  at::ScalarType type;
  const char* name;     ///< "float32"
  const char* storage;  ///< "FloatStorage"
};
[[nodiscard]] const std::vector<ScalarTypeNames>& scalar_types();

/// Returns a name such as "float32"; LibTorch's own name for types that are not in the table.
[[nodiscard]] std::string scalar_type_name(at::ScalarType type);
[[nodiscard]] std::optional<at::ScalarType> scalar_type_by_name(const std::string& name);

/// Returns a text such as "3x224x224:float32" or "scalar:int64".
[[nodiscard]] std::string tensor_text(at::IntArrayRef sizes, at::ScalarType type);

}  // namespace mptune::profiler
