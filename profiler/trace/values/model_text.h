#pragma once

#include <string>

namespace mptune {

/// Parts of the command line's MODEL argument.
struct ModelText {
  bool is_file = false;  ///< MODEL holds a '/', ends in .so, .pt or .pt2, or names an existing file
  std::string name;      ///< name of a built-in model, or path of a file
  bool has_rest = false;
  std::string rest;  ///< after the colon: parameters of a built-in model, "container=backbone.blocks" of a file
  std::string stem;  ///< base of file names about this model: "transformer", or "libnet" for "build/libnet.so"
};
[[nodiscard]] ModelText parse_model_text(const std::string& text);

}  // namespace mptune
