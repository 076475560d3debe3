#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "profiler/model/layers/model.h"

namespace mptune {

/// A row of the table of models.
struct BuiltinModel {
  std::string name;
  std::string parameters;  ///< what may follow the colon, "" for none
  std::string description;
};
[[nodiscard]] const std::vector<BuiltinModel>& builtin_models();

/// Makes one of builtin_models(). `parameters` is the text after the colon, "" for none. Throws Error (usage) for an unknown name.
[[nodiscard]] Model load_builtin(const std::string& name, const std::string& parameters, const std::string& input,
                                 std::optional<std::uint64_t> seed);

}  // namespace mptune
