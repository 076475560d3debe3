#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mptune/planner/plan_file.h"
#include "mptune/planner/search/search.h"
#include "mptune/profiler/device/device_spec.h"
#include "mptune/profiler/trace/profile.h"
#include "mptune/tuner/trial/setup.h"

namespace CLI {
class App;
}

namespace mptune {

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
struct PlanChoice {
  std::string stages, virtual_stages, cuts, microbatches, split_size, schedule, recompute, replicas;
  std::string plan;
  bool strict = false;
  /// True if any option but `plan` and `strict` is given.
  [[nodiscard]] bool any() const;
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
/// `searched`: they restrict a search instead of naming one plan.
void add_plan_options(CLI::App& command, PlanChoice& options, bool searched);
void add_plan_file_options(CLI::App& command, PlanChoice& options, const std::string& help);
void add_step_options(CLI::App& command, StepOptions& options);
void add_output_options(CLI::App& command, OutputOptions& options, const std::string& help);

/// A whole number within [least, most], or `absent` for "". Throws Error that names the option.
[[nodiscard]] std::int64_t parse_whole(const std::string& text, const std::string& option, std::int64_t least, std::int64_t most,
                                       std::int64_t absent);
/// A finite number within [least, most], or `absent` for "". Throws Error.
[[nodiscard]] double parse_number(const std::string& text, const std::string& option, double least, double most, double absent);

/// Devices, caps, batch and step of a command. Throws Error.
[[nodiscard]] TrainingSetup make_setup(const ModelOptions& model, const DeviceOptions& devices, const StepOptions& step);

/// What `--virtual` says, or the schedule where it is made for several stages per device; 0: neither. Throws Error.
[[nodiscard]] int asked_virtual_stages(const PlanChoice& choice);
/// Throws Error, with the reason, for a plan that the runtime here can't execute.
void check_executable(const Plan& plan, const std::string& where);
/// "" or why the runtime here can't execute plans of the one schedule that the space is restricted to.
[[nodiscard]] std::string why_not_executable(const SearchSpace& space);
/// Throws Error where there is a reason.
void check_schedule_executable(const SearchSpace& space);

/// Layer numbers of `--cuts`: numbers or layer names. Throws Error.
[[nodiscard]] std::vector<int> parse_cuts(const std::string& text, const std::vector<ProfileLayer>& layers);
/// The plan that options name. Throws Error.
[[nodiscard]] Plan plan_from_options(const PlanChoice& choice, const std::vector<std::string>& devices, int batch,
                                     const std::vector<ProfileLayer>& layers);
/// A search space over `devices`, restricted by what is given. Throws Error for what a search can't be restricted to.
[[nodiscard]] SearchSpace search_space(const PlanChoice& choice, const std::vector<DeviceSpec>& devices,
                                       const std::vector<std::int64_t>& memory, int batch, const std::vector<ProfileLayer>& layers);

}  // namespace mptune
