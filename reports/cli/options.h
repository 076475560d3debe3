#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/device/device_list.h"
#include "tuner/trial/setup.h"

namespace CLI {
class App;
}

namespace mptune::reports {

/// Options as typed; "" where not given.
struct DeviceOptions {
  std::string devices = "auto";
  std::string link;
  std::string memory;
};
struct ModelOptions {
  std::string model;
  std::string batch;
  std::string input;
};
struct StepOptions {
  std::string optimizer = "sgd";
  std::string learning_rate, loss, seed, data;
};
struct OutputOptions {
  std::string path;
  bool force = false;
};

void add_device_options(CLI::App& command, DeviceOptions& options);
void add_model_options(CLI::App& command, ModelOptions& options);
void add_step_options(CLI::App& command, StepOptions& options);
void add_output_options(CLI::App& command, OutputOptions& options, const std::string& help);

inline constexpr std::int64_t kMostBatch = 1 << 20;  ///< samples of a step

/// A whole number within [least, most], or `absent` for "". Throws Error that names the option.
[[nodiscard]] std::int64_t parse_whole(const std::string& text, const std::string& option, std::int64_t least, std::int64_t most,
                                       std::int64_t absent);
/// The same of a count of at least 1; 0 for "".
[[nodiscard]] int parse_count(const std::string& text, const std::string& option, std::int64_t most);
/// A finite number within [least, most], or `absent` for "". Throws Error.
[[nodiscard]] double parse_number(const std::string& text, const std::string& option, double least, double most, double absent);

/// Cap of the device that has all cores: the largest of `caps`, not their sum, so that it is capped like any other device. 0 (not capped)
/// unless all devices have a cap.
[[nodiscard]] std::int64_t whole_machine_cap(const std::vector<std::int64_t>& caps);

/// Devices, caps, batch and step of a command. Throws Error.
[[nodiscard]] tuner::TrainingSetup make_setup(const ModelOptions& model, const DeviceOptions& devices, const StepOptions& step);

}  // namespace mptune::reports
