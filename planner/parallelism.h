#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/plan.h"

namespace mptune::planner {

/// How a plan uses the devices.
enum class Parallelism : std::uint8_t {
  one_device,
  all_cores,      ///< all CPU devices as one
  data_parallel,  ///< one stage with replicas
  pipeline,
  hybrid,  ///< a pipeline of which some stage has replicas
};
/// In the order of tables.
inline constexpr std::array kParallelisms = {Parallelism::one_device, Parallelism::all_cores, Parallelism::data_parallel,
                                             Parallelism::pipeline, Parallelism::hybrid};

/// "data_parallel", as in JSON.
[[nodiscard]] const char* to_string(Parallelism kind);
/// Inverse of to_string; nothing for another text.
[[nodiscard]] std::optional<Parallelism> parallelism_named(const std::string& name);
/// "data parallel".
[[nodiscard]] std::string in_words(Parallelism kind);

/// `whole_machine`: devices of all cores; without them no plan counts as Parallelism::all_cores.
[[nodiscard]] Parallelism parallelism_of(const Plan& plan, const std::vector<std::string>& whole_machine = {});

}  // namespace mptune::planner
