#include "options.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

namespace emulation {
namespace {

// Those of NVRTC 13.
constexpr std::array kArchitectures{75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};

// They change speed, messages or debugging, not what a program computes here.
constexpr std::array<std::string_view, 24> kIgnored{"-default-device",
                                                    "--device-as-default-execution-space",
                                                    "-w",
                                                    "--disable-warnings",
                                                    "-G",
                                                    "--device-debug",
                                                    "-lineinfo",
                                                    "--generate-line-info",
                                                    "-dopt",
                                                    "--dopt",
                                                    "-use_fast_math",
                                                    "--use_fast_math",
                                                    "-fmad",
                                                    "--fmad",
                                                    "-maxrregcount",
                                                    "--maxrregcount",
                                                    "--ptxas-options",
                                                    "--extra-device-vectorization",
                                                    "-restrict",
                                                    "--restrict",
                                                    "-rdc",
                                                    "--relocatable-device-code",
                                                    "--diag-suppress",
                                                    "-diag-suppress"};

void set_architecture(CompileOptions& options, const std::string& value) {
  const std::size_t digits = value.find('_') + 1;
  const std::string kind = value.substr(0, digits);
  options.architecture = std::atoi(value.c_str() + digits);
  options.machine_code = kind == "sm_";
  const bool known = std::find(kArchitectures.begin(), kArchitectures.end(), options.architecture) != kArchitectures.end();
  if (!known || (kind != "sm_" && kind != "compute_")) options.problem = "nvrtc: error: invalid value for --gpu-architecture (-arch)\n";
}

/// The rest of `option` if it begins with one of `names`.
const char* value_of(const std::string& option, const std::vector<std::string_view>& names) {
  for (const std::string_view name : names)
    if (option.starts_with(name)) return option.c_str() + name.size();
  return nullptr;
}

void parse(CompileOptions& options, const std::string& option) {
  const std::string name = option.substr(0, option.find('='));
  if (std::find(kIgnored.begin(), kIgnored.end(), name) != kIgnored.end()) return;
  if (const char* value = value_of(option, {"-arch=", "--gpu-architecture="}))
    set_architecture(options, value);
  else if (const char* standard = value_of(option, {"-std=", "--std="}))
    options.standard = standard;
  else if (const char* macro = value_of(option, {"--define-macro=", "-D"}))
    options.for_preprocessor.push_back(std::string("-D") + macro);
  else if (const char* removed = value_of(option, {"--undefine-macro=", "-U"}))
    options.for_preprocessor.push_back(std::string("-U") + removed);
  else if (const char* folder = value_of(option, {"--include-path=", "-I"}))
    options.for_preprocessor.push_back(std::string("-I") + folder);
  else
    options.problem = "nvrtc: error: unrecognized option " + option + " found\n";
}

}  // namespace

CompileOptions parse_options(const std::vector<std::string>& options) {
  CompileOptions parsed;
  for (const std::string& option : options)
    if (parsed.problem.empty()) parse(parsed, option);
  return parsed;
}

}  // namespace emulation
