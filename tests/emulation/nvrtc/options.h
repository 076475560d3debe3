#pragma once

#include <string>
#include <vector>

namespace emulation {

/// Options of nvrtcCompileProgram.
struct CompileOptions {
  std::string problem;        ///< as NVRTC's log says it, "" if all are known
  bool machine_code = false;  ///< of sm_..., not only PTX of compute_...
  int architecture = 75;      ///< NVRTC's default
  std::string standard = "c++17";
  std::vector<std::string> for_preprocessor;  ///< -D, -U, -I
};

[[nodiscard]] CompileOptions parse_options(const std::vector<std::string>& options);

}  // namespace emulation
