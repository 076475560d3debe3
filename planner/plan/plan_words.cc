#include "planner/plan/plan_words.h"

#include <algorithm>
#include <set>
#include <utility>

#include "planner/plan/threads.h"
#include "profiler/base/index.h"

namespace mptune {
namespace {

std::string sizes_in_words(const std::vector<int>& sizes) {
  const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
  std::string text = std::to_string(sizes.size()) + (sizes.size() == 1 ? " micro-batch of " : " micro-batches of ");
  if (*least != *most) text += std::to_string(*least) + " to ";
  return text + std::to_string(*most);
}

// Returns `word` and the stages for which `has` is true: ", recomputing stages 0,2".
template <class Has>
std::string stages_in_words(const Plan& plan, const std::string& word, const Has& has) {
  std::string stages;
  int count = 0;
  for (int s = 0; s < plan.num_stages(); ++s) {
    if (!has(plan.stages[as_index(s)])) continue;
    stages += (count++ == 0 ? "" : ",");
    stages += std::to_string(s);
  }
  if (count == 0) return "";
  if (count == plan.num_stages()) return ", " + word;
  return ", " + word + (count == 1 ? " stage " : " stages ") + stages;
}

std::string memory_in_words(const Plan& plan) {
  const auto recomputes = [](const Stage& stage) { return stage.recompute.mode != Recompute::Mode::none; };
  const auto offloads = [](const Stage& stage) { return stage.offload; };
  return stages_in_words(plan, "recomputing", recomputes) + stages_in_words(plan, "offloading", offloads);
}

// Returns ", weight gradients of micro-batches 0-1, 2-3 fused"; three groups at most.
std::string fused_in_words(const Plan& plan) {
  std::set<std::pair<int, int>> groups;
  for (const std::vector<Action>& row : plan.actions)
    for (const Action& action : row)
      if (action.further > 0) groups.emplace(action.microbatch, action.last_microbatch());
  if (groups.empty()) return "";
  std::string text;
  int shown = 0;
  for (const auto& [first, last] : groups) {
    text += (shown == 0 ? "" : ", ") + (shown == 3 ? "..." : std::to_string(first) + "-" + std::to_string(last));
    if (++shown > 3) break;
  }
  return ", weight gradients of micro-batches " + text + " fused";
}

std::string options_in_words(const Plan& plan) {
  const ExecutionOptions& options = plan.options;
  const std::string format = options.memory_format == MemoryFormat::contiguous ? "" : std::string(", ") + name_of(options.memory_format);
  const std::string threads = planner::threads_in_words(plan);
  const std::string precision = options.precision == Precision::float32 ? "" : std::string(", ") + name_of(options.precision);
  return precision + format + (threads.empty() ? "" : ", " + threads) + (options.replace_slow_kernels ? ", slow kernels replaced" : "");
}

}  // namespace

std::string describe(const Plan& plan) {
  const int microbatches = plan.num_microbatches();
  if (plan.num_stages() > 1) {
    std::string replicas;
    std::set<int> devices;
    for (const Stage& stage : plan.stages) {
      devices.insert(stage.devices.begin(), stage.devices.end());
      replicas += (replicas.empty() ? "" : ",");
      replicas += std::to_string(stage.devices.size());
    }
    std::string text = "pipeline of " + std::to_string(plan.num_stages()) + " stages";
    if (std::ssize(devices) < plan.num_stages())
      text += " on " + std::to_string(devices.size()) + (devices.size() == 1 ? " device" : " devices");
    text += ", " + plan.schedule + ", " + sizes_in_words(plan.microbatch_sizes);
    if (plan.options.idle_devices_help) text += ", idle devices help";
    return text + (has_replicas(plan) ? ", replicas " + replicas : "") + memory_in_words(plan) + options_in_words(plan) +
           fused_in_words(plan);
  }
  const std::size_t replicas = plan.stages.empty() ? 0 : plan.stages.front().devices.size();
  std::string text = "one device";
  if (replicas > 1) text = "data parallel over " + std::to_string(replicas) + " devices";
  const int cores = planner::default_threads(plan.devices.front());
  if (replicas == 1 && cores > 1) text += " of " + std::to_string(cores) + " cores";
  if (microbatches > static_cast<int>(replicas)) text += ", " + sizes_in_words(plan.microbatch_sizes);
  return text + memory_in_words(plan) + options_in_words(plan) + fused_in_words(plan);
}

}  // namespace mptune
