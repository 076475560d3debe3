#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/plan/plan.h"

namespace mptune::planner {

/// How a plan uses the devices.
enum class Parallelism : std::uint8_t {
  one_device,
  all_cores,      ///< all CPU devices as one
  data_parallel,  ///< one stage with replicas
  pipeline,
  hybrid,  ///< a pipeline of which some stage has replicas
};
/// All kinds, in the order in which tables list them.
inline constexpr std::array kParallelisms = {Parallelism::one_device, Parallelism::all_cores, Parallelism::data_parallel,
                                             Parallelism::pipeline, Parallelism::hybrid};

/// Returns the name in JSON, such as "data_parallel".
[[nodiscard]] const char* to_string(Parallelism kind);
/// The inverse of to_string(); returns nullopt for any other text.
[[nodiscard]] std::optional<Parallelism> parallelism_named(const std::string& name);
/// Returns the kind in words, such as "data parallel".
[[nodiscard]] std::string in_words(Parallelism kind);

/// Returns the plan's kind. `whole_machine` lists devices that have all cores; without it no plan counts as Parallelism::all_cores.
[[nodiscard]] Parallelism parallelism_of(const Plan& plan, const std::vector<std::string>& whole_machine = {});

}  // namespace mptune::planner
