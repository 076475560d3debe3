#pragma once

#include <string>

namespace mptune {

/// MODEL of the command line, taken apart.
struct ModelText {
  bool is_file = false;  ///< it has a '/', ends in .so, .pt or .pt2, or there is such a file
  std::string name;      ///< of a built-in model, or the path of a file
  bool has_rest = false;
  std::string rest;  ///< behind the colon: parameters of a built-in model, "container=backbone.blocks" of a file
  std::string stem;  ///< what files about this model are called: "transformer", "libnet" of "build/libnet.so"
};
[[nodiscard]] ModelText parse_model_text(const std::string& text);

}  // namespace mptune
