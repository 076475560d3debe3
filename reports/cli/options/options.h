#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/search/space/search_space.h"
#include "profiler/device/list/device_list.h"
#include "profiler/trace/values/training_spec.h"
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
  bool divides = false;  ///< the command searches how pools are divided
  bool ranks = false;    ///< the command takes devices of several ranks
  std::string rank_count = {};
  std::string reduce = {};
};
struct ModelOptions {
  std::string model;
  std::string batch;
  std::string input;
};
struct StepOptions {
  std::string optimizer = "sgd";
  std::string learning_rate, loss, precision, seed, data;
};
struct OutputOptions {
  std::string path;
  bool force = false;
};

/// Headings of options in help.
inline constexpr const char* kModelGroup = "Model";
inline constexpr const char* kDeviceGroup = "Devices";
inline constexpr const char* kPlanGroup = "Plan";
inline constexpr const char* kSearchGroup = "Search";
inline constexpr const char* kStepGroup = "Step";
inline constexpr const char* kOutputGroup = "Output";

/// `divides`: pools may be named.
void add_device_options(CLI::App& command, DeviceOptions& options, bool divides = false);
void add_model_options(CLI::App& command, ModelOptions& options);
void add_step_options(CLI::App& command, StepOptions& options);
void add_output_options(CLI::App& command, OutputOptions& options, const std::string& help);
/// Returns what may stand for MODEL: built-in models, and files.
[[nodiscard]] std::vector<std::string> model_values();

inline constexpr std::int64_t kMostBatch = 1 << 20;  ///< samples of a step

/// Returns a whole number within [least, most], or `absent` for "". Throws Error that names the option.
[[nodiscard]] std::int64_t parse_whole(const std::string& text, const std::string& option, std::int64_t least, std::int64_t most,
                                       std::int64_t absent);
/// Does the same for a count of at least 1, and returns 0 for "".
[[nodiscard]] int parse_count(const std::string& text, const std::string& option, std::int64_t most);
/// Returns a finite number within [least, most], or `absent` for "". Throws Error.
[[nodiscard]] double parse_number(const std::string& text, const std::string& option, double least, double most, double absent);

/// Returns the cap of the device that has all cores: the largest of `caps`, not their sum, so that it is capped like any other device. 0
/// (not capped) unless all devices have a cap.
[[nodiscard]] std::int64_t whole_machine_cap(const std::vector<std::int64_t>& caps);

/// Returns the cap of each device by --memory, 0 for none. Where pools are divided, all their devices have the same cap. Throws Error.
[[nodiscard]] std::vector<std::int64_t> memory_caps(const std::string& text, const std::vector<DeviceSpec>& devices,
                                                    const std::vector<DevicePool>& pools);
/// Returns every list of devices that the pools leave open, followed by those of `devices` that are in no pool; empty without pools. Throws
/// Error.
[[nodiscard]] std::vector<Division> divisions_with_caps(const std::string& memory, const std::vector<DeviceSpec>& devices,
                                                        const std::vector<DevicePool>& pools);
[[nodiscard]] std::vector<DevicePool> parse_pools(const std::vector<std::string>& names);

/// Returns what was asked for, to be said again in commands that work from any folder.
[[nodiscard]] TrainingSpec training_spec(const ModelOptions& model, const DeviceOptions& devices, const StepOptions& step);

/// Returns devices, caps, batch and step of a command. Throws Error.
[[nodiscard]] tuner::TrainingSetup make_setup(const ModelOptions& model, const DeviceOptions& devices, const StepOptions& step);
/// Gives `setup` the precision of a plan file's plan. Throws Error where --precision says another.
void take_precision(const Plan& plan, const StepOptions& step, const std::string& path, tuner::TrainingSetup& setup);

}  // namespace mptune::reports
